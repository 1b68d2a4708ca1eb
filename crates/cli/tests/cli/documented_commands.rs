// SPDX-License-Identifier: GPL-2.0-or-later
//! Every `longhaul` command in the documents' code blocks and in the help's examples parses.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// Directories and files with documents, from the repository's root.
const DOCUMENTS: [&str; 6] =
    ["README.md", "CONTRIBUTING.md", "docs", "deploy", "scenarios", "SECURITY.md"];
/// Words after which a command ends.
const ENDS: [&str; 9] = ["|", "||", "&&", "&", ";", ">", "<", "then", "done"];

fn documents(path: &Path, found: &mut Vec<PathBuf>) {
    if path.is_dir() {
        let mut entries: Vec<_> = fs::read_dir(path).unwrap().flatten().map(|e| e.path()).collect();
        entries.sort();
        for entry in entries {
            documents(&entry, found);
        }
    } else if path.extension().is_some_and(|extension| extension == "md") {
        found.push(path.to_owned());
    }
}

/// The arguments of each `longhaul` that a line of shell runs.
fn commands(line: &str) -> Vec<Vec<String>> {
    let mut commands: Vec<Vec<String>> = Vec::new();
    let (mut is_first, mut is_inside) = (true, false);
    for word in shlex::split(line).unwrap_or_default() {
        let ends = word.ends_with(';');
        let word = word.trim_end_matches(';');
        if ENDS.contains(&word) || word.starts_with("2>") || word.starts_with('>') {
            (is_first, is_inside) = (true, false);
        } else if is_inside {
            commands.last_mut().unwrap().push(word.to_owned());
        } else if is_first && (word == "longhaul" || word.ends_with("/longhaul")) {
            commands.push(Vec::new());
            is_inside = true;
        } else {
            is_first &= word == "sudo" || word == "exec" || word.contains('=');
        }
        if ends {
            (is_first, is_inside) = (true, false);
        }
    }
    commands
}

/// Shell in code blocks, with continued lines as one, and its line number.
fn shell(document: &str) -> Vec<(usize, String)> {
    let (mut lines, mut is_shell, mut is_fenced) = (Vec::new(), false, false);
    let mut continued: Option<(usize, String)> = None;
    for (number, line) in document.lines().enumerate() {
        if let Some(kind) = line.trim_start().strip_prefix("```") {
            is_fenced = !is_fenced;
            is_shell = is_fenced && ["sh", "bash", "console"].iter().any(|sh| kind.starts_with(sh));
            continue;
        }
        if !is_shell {
            continue;
        }
        let (at, text) = continued.take().unwrap_or((number + 1, String::new()));
        match line.strip_suffix('\\') {
            Some(front) => continued = Some((at, text + front)),
            None => lines.push((at, text + line)),
        }
    }
    lines
}

#[test]
fn documented_commands_parse() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut all = Vec::new();
    for name in DOCUMENTS {
        documents(&root.join(name), &mut all);
    }
    let (mut parsed, mut wrong) = (0, Vec::new());
    for document in all {
        let text = fs::read_to_string(&document).unwrap();
        for (line, shell) in shell(&text) {
            for command in commands(&shell) {
                let arguments = ["longhaul".to_owned()].into_iter().chain(command);
                if let Err(error) = longhaul_cli::command().try_get_matches_from(arguments) {
                    let name = document.strip_prefix(&root).unwrap().display();
                    let why = error.to_string();
                    wrong.push(format!(
                        "{name}:{line}: {shell}\n    {}",
                        why.lines().next().unwrap()
                    ));
                }
                parsed += 1;
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {parsed}:\n{}", wrong.len(), wrong.join("\n"));
    assert!(parsed > 100, "only {parsed} commands were found");
}

/// Names of a command and of its subcommands, as in `longhaul wan up`, each with its examples.
fn examples_of(command: &clap::Command, name: &str, found: &mut Vec<(String, Vec<String>)>) {
    if !command.is_subcommand_required_set() {
        let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        let lines = help.strip_prefix("Examples:\n").unwrap_or_default().lines();
        found.push((name.to_owned(), lines.map(str::to_owned).collect()));
    }
    for below in command.get_subcommands() {
        if below.get_name() != "help" && !below.is_hide_set() {
            examples_of(below, &format!("{name} {}", below.get_name()), found);
        }
    }
}

/// The commands of an example. The one in ssh's `ProxyCommand` is a word of its own, with `%h` and `%p`.
fn example_commands(line: &str) -> Vec<Vec<String>> {
    let words = shlex::split(line).unwrap_or_default();
    let proxy_command = words.iter().find_map(|word| word.strip_prefix("ProxyCommand="));
    match proxy_command {
        Some(command) => commands(&command.replace("%h", "host").replace("%p", "22")),
        None => commands(line),
    }
}

#[test]
fn every_command_has_two_examples_that_parse() {
    let mut command = longhaul_cli::command();
    command.build();
    let (mut examples, mut wrong) = (Vec::new(), Vec::new());
    examples_of(&command, "longhaul", &mut examples);
    assert!(examples.len() > 50, "only {} commands were found", examples.len());
    for (name, lines) in examples {
        if lines.len() != 2 {
            wrong.push(format!("{name}: {} examples", lines.len()));
        }
        for line in lines {
            let commands = example_commands(&line);
            let is_own = |words: &Vec<String>| {
                let words = words.iter().map(String::as_str);
                ["longhaul"].into_iter().chain(words).zip(name.split(' ')).all(|(a, b)| a == b)
            };
            if !commands.iter().any(is_own) {
                wrong.push(format!("{name}: another command: {line}"));
            }
            for words in commands {
                let arguments = ["longhaul".to_owned()].into_iter().chain(words);
                if let Err(error) = longhaul_cli::command().try_get_matches_from(arguments) {
                    let why = error.to_string();
                    wrong.push(format!("{name}: {line}\n    {}", why.lines().next().unwrap()));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}:\n{}", wrong.len(), wrong.join("\n"));
}

/// Appends the help of a command and of its subcommands.
fn help_of(command: &mut clap::Command, name: &str, page: &mut String) {
    let help = command.render_long_help().to_string();
    let lines: Vec<&str> = help.trim_end().lines().map(str::trim_end).collect();
    *page += &format!("\n## {name}\n```text\n{}\n```\n", lines.join("\n"));
    for below in command.get_subcommands_mut().filter(|below| below.get_name() != "help") {
        help_of(below, &format!("{name} {}", below.get_name()), page);
    }
}

#[test]
fn page_of_commands_is_current() {
    let mut command = longhaul_cli::command().term_width(100);
    command.build();
    let mut page = "# Commands\nEvery command's `--help`. Generated: `LONGHAUL_BLESS=1 cargo test -p longhaul-cli --test cli page_of_commands`\n\
        writes this page.\n"
        .to_owned();
    help_of(&mut command, "longhaul", &mut page);
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/cli.md");
    if std::env::var_os("LONGHAUL_BLESS").is_some() {
        fs::write(&file, &page).unwrap();
    }
    let written = fs::read_to_string(&file).unwrap_or_default();
    assert!(written == page, "docs/cli.md is stale; run this test with LONGHAUL_BLESS=1");
}

#[test]
fn commands_are_found_in_shell() {
    let all = |line| commands(line).iter().map(|words| words.join(" ")).collect::<Vec<_>>();
    assert_eq!(all("sudo longhaul cc list  # what there is"), ["cc list"]);
    assert_eq!(all("x=$y target/release/longhaul sim 'a b' > log; echo longhaul"), ["sim a b"]);
    assert_eq!(all("install -g longhaul -m 640 a b"), Vec::<String>::new());
    assert_eq!(all("tar c d | longhaul send - && longhaul recv 2> log"), ["send -", "recv"]);
}
