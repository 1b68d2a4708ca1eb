// SPDX-License-Identifier: GPL-2.0-or-later
//! The system's C compiler makes a shared object of a file, in a private temporary directory.
//!
//! First the file alone, for its mistakes and the warnings; then with the table of `ffi.h` and the checks; then
//! `guard.c`, and both together. Messages name the file as the user has, and the headers of `cc/` as `cc/...`.

use super::{error::FileError, source::Source};
use rustix::process::{Pid, Resource, Rlimit, Signal, kill_process_group, prlimit};
use std::{
    env,
    ffi::OsString,
    fs::{self, File},
    io::{self, Read, Seek, SeekFrom},
    os::unix::process::CommandExt,
    path::Path,
    process::{Child, Command, ExitStatus, Stdio},
    thread,
    time::{Duration, Instant},
};

include!(concat!(env!("OUT_DIR"), "/headers.rs"));

/// What is compiled with a file, in addition to the headers of `cc/`.
const OWN: [(&str, &str); 3] = [
    ("ffi.h", include_str!("../ffi.h")),
    ("contract.h", include_str!("../contract.h")),
    ("guard.c", include_str!("guard.c")),
];

/// As the kernel's build has it: integers, no library, no header of the system.
const LANGUAGE: [&str; 6] = [
    "-fno-delete-null-pointer-checks",
    "-std=gnu11",
    "-O2",
    "-ffreestanding",
    "-nostdinc",
    "-fno-diagnostics-color",
];
const WARNINGS: [&str; 6] = [
    "-fsyntax-only",
    "-Wall",
    "-Wextra",
    "-Wno-unused-parameter",
    "-Werror=implicit-function-declaration",
    "-Werror=vla",
];
/// Places in the object are found by its debug information, and it must be possible to unwind from any.
const OBJECT: [&str; 7] = [
    "-g",
    "-gz=none",
    "-fPIC",
    "-fvisibility=hidden",
    "-fasynchronous-unwind-tables",
    "-fno-stack-protector",
    "-c",
];
/// What `guard.c` answers. Only memory, loops and undefined operations; no library of a sanitizer takes part.
const CHECKS: [&str; 6] = [
    // What comes after the first may be about the table.
    "-Wfatal-errors",
    "-Werror=implicit-function-declaration",
    // Of 64 KiB that a call may take. The kernel gives 512 bytes, but the checks take some.
    "-Werror=frame-larger-than=16384",
    "-fsanitize=thread",
    "-fsanitize=integer-divide-by-zero,signed-integer-overflow,shift,unreachable",
    "-fno-sanitize-recover=integer-divide-by-zero,signed-integer-overflow,shift,unreachable",
];
/// Of gcc only: messages name the line of the file, and not what a macro of ours is made of. Clang's do.
const GCC: [&str; 2] = ["-ftrack-macro-expansion=0", "-fmax-errors=10"];
/// The contract is integers, as in the kernel; where the compiler can tell.
const INTEGERS: &[&str] = if cfg!(any(target_arch = "x86_64", target_arch = "aarch64")) {
    &["-mgeneral-regs-only"]
} else {
    &[]
};
/// What compilers and linkers say of floating point then.
const FLOATING: [&str; 4] = ["SSE register", "df3'", "sf3'", "-mgeneral-regs-only"];

/// Checks that each names in its own way: clang would count no block that leads to itself alone, and its `bounds` has
/// one that ends the process.
const GCC_CHECKS: [&str; 3] =
    ["-fsanitize-coverage=trace-pc", "-fsanitize=bounds", "-fno-sanitize-recover=bounds"];
const CLANG_CHECKS: [&str; 3] = [
    "-fsanitize-coverage=trace-pc,no-prune",
    "-fsanitize=array-bounds",
    "-fno-sanitize-recover=array-bounds",
];
const LINK: [&str; 5] =
    ["-shared", "-nostdlib", "-Wl,-z,defs", "-Wl,--build-id=none", "-Wl,--eh-frame-hdr"];

/// A compiler that takes longer is ended.
const TIME: Duration = Duration::from_secs(60);
/// What it may take of memory, in bytes, and write into a file.
const MEMORY: u64 = 2 << 30;
const FILE_SIZE: u64 = 64 << 20;
/// Bytes of messages that are passed on.
const SAID: u64 = 8 << 10;

/// What became of a file.
#[derive(Debug)]
pub(super) struct Compiled {
    /// The shared object's bytes.
    pub library: Vec<u8>,
    pub warnings: String,
}

pub(super) fn compile(source: &Source) -> Result<Compiled, FileError> {
    let directory = tempfile::Builder::new().prefix("longhaul-cc-").tempdir();
    let directory = directory.map_err(FileError::system("make a temporary directory"))?;
    let mut compiler = Compiler { source, directory: directory.path(), of_its_own: &[] };
    for (name, text) in HEADERS.iter().chain(&OWN) {
        compiler.write(name, text)?;
    }
    compiler.write("empty.c", "")?;
    compiler.write("alone.c", &alone(source))?;
    compiler.write("algorithm.c", &with_table(source))?;
    compiler.call(&[&["-x", "c", "-dM", "-E"]], &["empty.c"], Some("macros"))?;
    let macros = fs::read_to_string(directory.path().join("macros"));
    let is_clang =
        macros.map_err(FileError::system("read what the compiler is"))?.contains("__clang__");
    let more_checks = if is_clang { &CLANG_CHECKS } else { &GCC_CHECKS };
    if !is_clang {
        compiler.of_its_own = &GCC;
    }
    let warnings = compiler.call(&[&LANGUAGE, &WARNINGS], &["alone.c"], None)?;
    compiler.call(
        &[&LANGUAGE, &OBJECT, &CHECKS, INTEGERS, more_checks],
        &["algorithm.c"],
        Some("algorithm.o"),
    )?;
    compiler.call(&[&LANGUAGE, &OBJECT], &["guard.c"], Some("guard.o"))?;
    compiler.call(&[&LINK], &["algorithm.o", "guard.o"], Some("algorithm.so"))?;
    let library = fs::read(directory.path().join("algorithm.so"));
    Ok(Compiled {
        library: library.map_err(FileError::system("read what was compiled"))?,
        warnings,
    })
}

/// Says to the compiler where the next line comes from.
fn line_of(source: &Source, line: usize) -> String {
    format!("#line {line} \"{}\"\n", source.path.replace('\\', "\\\\").replace('"', "\\\""))
}

fn alone(source: &Source) -> String {
    format!("{}{}\n", line_of(source, 1), source.text)
}

/// The file, its loops counted, and the table of its functions as if `CC_ALGORITHM` were made of that.
fn with_table(source: &Source) -> String {
    let end = line_of(source, source.end_line);
    // guard.c can't check copies by the compiler's builtin functions.
    let mut text = String::from(
        "#define __builtin_memset memset\n#define __builtin_memcpy memcpy\n\
         #define __builtin_memmove memmove\n#define __builtin_memcmp memcmp\n\
         void *memset(void *, int, unsigned long);\n\
         void *memcpy(void *, const void *, unsigned long);\n\
         void *memmove(void *, const void *, unsigned long);\n\
         int memcmp(const void *, const void *, unsigned long);\n\
         void guard_step(void);\n#define while(...) while (guard_step(), (__VA_ARGS__))\n\
         #define for(...) for (__VA_ARGS__) if (guard_step(), 0) ; else\n\
         #define goto for (;;) goto\n",
    );
    text += &alone(source);
    text += "#include \"ffi.h\"\n";
    let name = &source.name;
    for what in ["title", "rule", "source", "param_list", "set_list", "uses_rtt", "uses_event"] {
        text += &format!(
            "#ifndef cc_{name}_{what}\n{end}#error the file does not define cc_{name}_{what}\n#endif\n"
        );
    }
    for line in [
        format!("#ifndef cc_{name}_kind"),
        format!("#define cc_{name}_kind window"),
        "#endif".to_owned(),
        format!("#if FFI_KIND(cc_{name}_kind) == 0"),
        format!("#error cc_{name}_kind is neither window nor rate"),
        "#endif".to_owned(),
        format!("#define FFI_PARAMS cc_{name}_params"),
        format!(
            "FFI_DEFINE({name}) const struct ffi_algorithm longhaul_cc_unguarded[] = {{ FFI_ENTRY({name}) }};"
        ),
    ] {
        text += &format!("{end}{line}\n");
    }
    text
}

struct Compiler<'a> {
    source: &'a Source,
    directory: &'a Path,
    /// Options that others do not know.
    of_its_own: &'static [&'static str],
}

impl Compiler<'_> {
    fn write(&self, name: &str, text: &str) -> Result<(), FileError> {
        fs::write(self.directory.join(name), text)
            .map_err(FileError::system("write into a temporary directory"))
    }

    /// Calls it, in the user's directory, so that it finds the file's lines; answers what it said.
    fn call(
        &self,
        options: &[&[&str]],
        inputs: &[&str],
        output: Option<&str>,
    ) -> Result<String, FileError> {
        let words = env::var_os("CC").filter(|words| !words.is_empty());
        let words = words.unwrap_or_else(|| OsString::from("cc"));
        let words = words.to_string_lossy().into_owned();
        let mut words = words.split_whitespace();
        let program = words.next().unwrap_or("cc");
        let mut command = Command::new(program);
        command.args(words).args(options.concat()).args(self.of_its_own);
        command.arg("-I").arg(self.directory);
        command.args(inputs.iter().map(|name| self.directory.join(name)));
        if let Some(output) = output {
            command.arg("-o").arg(self.directory.join(output));
        }
        let (ended, said) = run(&mut command, &self.directory.join("said"))
            .map_err(|error| FileError::NoCompiler { compiler: program.to_owned(), error })?;
        let said = self.as_users_know_it(&said);
        match ended {
            Some(status) if status.success() => Ok(said),
            Some(_) if !said.is_empty() => Err(self.refused(said)),
            Some(status) => Err(self.refused(format!("{program}: {status}"))),
            None => Err(self.refused(format!("{program} took more than {} s", TIME.as_secs()))),
        }
    }

    fn refused(&self, mut said: String) -> FileError {
        if FLOATING.iter().any(|words| said.contains(words)) {
            said += "\nA congestion control computes in integers: the kernel has no floating point. See cc/math.h";
        }
        FileError::DoesNotCompile { file: self.source.path.clone(), said }
    }

    /// Without what leads to the temporary directory, and the linker's words about its own inputs.
    fn as_users_know_it(&self, said: &str) -> String {
        let directory = format!("{}/", self.directory.display());
        let own: Vec<String> = OWN.iter().map(|(name, _)| format!("cc/{name}:")).collect();
        let mut lines = Vec::new();
        let mut is_own = false;
        for line in said.lines().map(|line| line.replace(&directory, "cc/")) {
            // A message goes on, indented, until the next one.
            if !line.starts_with(' ') {
                is_own = own.iter().any(|own| line.starts_with(own))
                    || ["collect2: ", "clang: error: linker", "compilation terminated"]
                        .iter()
                        .any(|end| line.starts_with(end))
                    || line.contains("algorithm.o: in function");
            }
            if !is_own {
                lines.push(line);
            }
        }
        // Where it speaks of ours alone, that is all there is to say.
        if lines.is_empty() { said.trim_end().to_owned() } else { lines.join("\n") }
    }
}

/// How it ended, none if it had to be ended, and the first of what it said.
fn run(command: &mut Command, said: &Path) -> io::Result<(Option<ExitStatus>, String)> {
    let mut file = File::options().read(true).write(true).create(true).truncate(true).open(said)?;
    let mut child = command
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(file.try_clone()?)
        .process_group(0)
        .spawn()?;
    let ended = wait(&mut child)?;
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(0))?;
    file.take(SAID).read_to_end(&mut bytes)?;
    Ok((ended, String::from_utf8_lossy(&bytes).into_owned()))
}

/// Waits for it, within bounds. Its own children are of its process group and inherit its limits.
fn wait(child: &mut Child) -> io::Result<Option<ExitStatus>> {
    let pid = Pid::from_child(child);
    for (resource, most) in
        [(Resource::As, MEMORY), (Resource::Fsize, FILE_SIZE), (Resource::Cpu, TIME.as_secs())]
    {
        // It may have ended, or the user's own limit be lower.
        let _ = prlimit(Some(pid), resource, Rlimit { current: Some(most), maximum: Some(most) });
    }
    let start = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if start.elapsed() > TIME {
            let _ = kill_process_group(pid, Signal::KILL);
            child.wait()?;
            return Ok(None);
        }
        thread::sleep(Duration::from_millis(2));
    }
}
