// SPDX-License-Identifier: GPL-2.0-or-later
//! `longhaul cc`: congestion controls in the running kernel.

use crate::{
    cc_file,
    failure::Failure,
    print::{print_json, print_text},
};
use ::congestion::{Algorithm, Params, UnknownName, trial};
use ::kernel::{
    Error,
    cc::{self, AlgorithmDescription, CongestionControlList, Entry, Options, Provider, decides},
};
use std::path::PathBuf;

const LIST_EXAMPLES: &str = "\
Examples:
  sudo longhaul cc list
  sudo longhaul cc list --json";
const LOAD_EXAMPLES: &str = "\
Examples:
  sudo longhaul cc load bbr htcp
  sudo longhaul cc load cubic --set beta=819 --restricted";
const UNLOAD_EXAMPLES: &str = "\
Examples:
  sudo longhaul cc unload htcp
  sudo longhaul cc unload all";
const SHOW_EXAMPLES: &str = "\
Examples:
  longhaul cc show htcp
  longhaul cc show cubic --json";
const CHECK_EXAMPLES: &str = "\
Examples:
  longhaul cc check mine.h
  longhaul cc check mine.h --seed 7";
const PLOT_EXAMPLES: &str = "\
Examples:
  longhaul cc plot htcp > htcp.svg
  longhaul cc plot scalable --output scalable.svg";

#[derive(clap::Subcommand)]
pub enum Command {
    /// List loaded and loadable congestion controls, and the number of sockets that use each. Needs root.
    #[command(after_help = LIST_EXAMPLES)]
    List {
        /// Print one JSON document.
        #[arg(long)]
        json: bool,
    },
    /// Load algorithms into the kernel, as `lh_NAME`, until they are unloaded or the machine restarts. Needs root.
    #[command(after_help = LOAD_EXAMPLES)]
    Load {
        /// Names of algorithms, as `cc list` prints them, or `all`.
        #[arg(required = true)]
        names: Vec<String>,
        /// Parameter set, one of those that `cc show` lists [default: the algorithm's first].
        #[arg(long, value_name = "SET")]
        params: Option<String>,
        /// Set one parameter to a whole number, in the unit that `cc show` prints, as in `--set beta=717`. May be
        /// repeated.
        #[arg(long, value_name = "NAME=VALUE")]
        set: Vec<String>,
        /// Let only programs with `CAP_NET_ADMIN` choose them. Otherwise any program may, for its own sockets.
        #[arg(long)]
        restricted: bool,
    },
    /// Unload algorithms from the kernel; sockets that use them keep them. Needs root.
    #[command(after_help = UNLOAD_EXAMPLES)]
    Unload {
        /// Names of algorithms, or `all` that are loaded.
        #[arg(required = true)]
        names: Vec<String>,
    },
    /// Show an algorithm's rule, its parameters and their sources.
    #[command(after_help = SHOW_EXAMPLES)]
    Show {
        /// Name of the algorithm, as `cc list` prints it.
        name: String,
        /// Print one JSON document.
        #[arg(long)]
        json: bool,
    },
    /// Compile a congestion control from your C file, show it, and test its contract with random acknowledgements.
    #[command(after_help = CHECK_EXAMPLES)]
    Check {
        /// C file, which ends with `CC_ALGORITHM(NAME)`.
        file: PathBuf,
        /// Seed of the random numbers.
        #[arg(long, value_name = "N", default_value_t = trial::SEED)]
        seed: u64,
    },
    /// Draw an algorithm's congestion window over time, as SVG.
    #[command(after_help = PLOT_EXAMPLES)]
    Plot {
        /// Name of the algorithm, as `cc list` prints it.
        name: String,
        /// Parameter set [default: the algorithm's first]
        #[arg(long, value_name = "SET")]
        params: Option<String>,
        /// Write to this file [default: standard output].
        #[arg(short, long, value_name = "FILE")]
        output: Option<PathBuf>,
    },
}

pub fn run(command: Command) -> Result<(), Failure> {
    match command {
        Command::List { json } => list(json),
        Command::Load { names, params, set, restricted } => {
            load(&names, params.as_deref(), &set, restricted)
        }
        Command::Unload { names } => unload(&names),
        Command::Show { name, json } => show(&name, json),
        Command::Check { file, seed } => cc_file::check(&file, seed),
        Command::Plot { name, params, output } => plot(&name, params.as_deref(), output),
    }
}

fn list(json: bool) -> Result<(), Failure> {
    let entries = cc::list()?;
    if json {
        print_json(&CongestionControlList::new(&entries));
        return Ok(());
    }
    let mut text = format!("{:<14} {:<38} {:>7}  what\n", "name", "state", "sockets");
    for entry in &entries {
        let what = entry.algorithm.map_or("", |algorithm| algorithm.title);
        text +=
            &format!("{:<14} {:<38} {:>7}  {what}\n", entry.name, state_text(entry), entry.sockets);
    }
    print_text(&text);
    Ok(())
}

fn state_text(entry: &Entry) -> String {
    let mut words = vec![match &entry.provider {
        Provider::Kernel => "the kernel's".to_owned(),
        Provider::Pinned(in_force) => {
            format!("loaded, {}", in_force.set.unwrap_or("own parameters"))
        }
        Provider::Process => "loaded by a running process".to_owned(),
        Provider::Withdrawn => "unloaded, still in use".to_owned(),
        Provider::None => "can be loaded".to_owned(),
    }];
    if entry.restricted == Some(true) {
        words.push("restricted".to_owned());
    }
    if entry.default {
        words.push("default".to_owned());
    }
    words.join(", ")
}

/// The algorithms that the command line names.
struct NamedAlgorithms {
    algorithms: Vec<&'static Algorithm>,
    /// `all` is among the names, so `algorithms` is every one.
    all: bool,
    /// Names of those that were named themselves.
    themselves: Vec<&'static str>,
}

impl NamedAlgorithms {
    fn find(names: &[String]) -> Result<Self, UnknownName> {
        let all = names.iter().any(|name| name == "all");
        let found = names.iter().filter(|name| *name != "all").map(|name| Algorithm::find(name));
        let found = found.collect::<Result<Vec<_>, _>>()?;
        let themselves = found.iter().map(|algorithm| algorithm.name).collect();
        let algorithms = if all { Algorithm::all().iter().collect() } else { found };
        Ok(Self { algorithms, all, themselves })
    }

    /// Each algorithm's parameters of that set. With `all`, algorithms without the set get their default.
    fn parameters(&self, set: Option<&str>) -> Result<Vec<Params>, Failure> {
        let has = |algorithm: &Algorithm| set.is_none_or(|set| algorithm.set(set).is_ok());
        let known = self.algorithms.iter().any(|algorithm| has(algorithm));
        let of = |algorithm: &&'static Algorithm| {
            if has(algorithm) || !known || self.themselves.contains(&algorithm.name) {
                return parameters(algorithm, set);
            }
            let default = &algorithm.sets[0];
            errln!(
                "{} has no parameter set of this name: using its default, {}",
                algorithm.name,
                default.name
            );
            Ok(default.params.clone())
        };
        self.algorithms.iter().map(of).collect()
    }
}

fn parameters(algorithm: &Algorithm, set: Option<&str>) -> Result<Params, Failure> {
    let set = set.map(|set| algorithm.set(set)).transpose();
    let set = set.map_err(|error| Failure::usage(format!("{}: {error}", algorithm.name)))?;
    Ok(set.map_or_else(|| algorithm.default_set(), |set| &set.params).clone())
}

fn load(
    names: &[String],
    set: Option<&str>,
    changes: &[String],
    restricted: bool,
) -> Result<(), Failure> {
    // All arguments are parsed before anything is loaded.
    let wanted = NamedAlgorithms::find(names)?.parameters(set)?;
    let wanted = wanted.into_iter().map(|params| with_changes(params, changes));
    let wanted = wanted.collect::<Result<Vec<_>, _>>()?;
    let options = Options { restricted, ..Options::default() };
    for params in &wanted {
        let loaded = cc::load(params, &options)?;
        let name = loaded.name().to_owned();
        loaded.pin()?;
        outln!("{name}");
    }
    Ok(())
}

fn with_changes(params: Params, changes: &[String]) -> Result<Params, Failure> {
    changes.iter().try_fold(params, |params, change| {
        let parsed = change.split_once('=').and_then(|(name, value)| {
            value.trim().parse().ok().map(|value: u32| (name.trim(), value))
        });
        let (name, value) = parsed.ok_or_else(|| {
            Failure::usage(format!(
                "--set {change}: expected NAME=VALUE with a whole number, as in --set beta=717"
            ))
        })?;
        Ok(params.with(name, value)?)
    })
}

fn unload(names: &[String]) -> Result<(), Failure> {
    let NamedAlgorithms { algorithms, all, themselves } = NamedAlgorithms::find(names)?;
    for algorithm in algorithms {
        let unloaded = match cc::unload(algorithm) {
            Err(Error::NotLoaded { .. } | Error::HeldElsewhere { .. })
                if all && !themselves.contains(&algorithm.name) =>
            {
                continue;
            }
            outcome => outcome?,
        };
        let name = algorithm.kernel_name();
        for reset in unloaded.defaults {
            errln!(
                "{name} was the default of network namespace {}, which is {} now",
                reset.namespace,
                reset.to
            );
        }
        outln!("{name}");
    }
    Ok(())
}

fn show(name: &str, json: bool) -> Result<(), Failure> {
    let algorithm = Algorithm::find(name)?;
    if json {
        print_json(&AlgorithmDescription::new(algorithm));
        return Ok(());
    }
    print_text(&description_text(algorithm, decides(algorithm.attach)));
    Ok(())
}

/// Rule, source, parameter sets and parameters, as `cc show` prints them.
pub fn description_text(algorithm: &Algorithm, decides: &str) -> String {
    let Algorithm { title, rule, source, state_bytes, .. } = algorithm;
    let mut text = format!(
        "{title} ({}{})\n  rule     {rule}\n  source   {source}\n  \
         decides  {decides}; {state_bytes} bytes of state a connection\n  \
         parameter sets, the default first:\n",
        algorithm.kernel_name(),
        // An algorithm from a file is not in the kernel.
        if algorithm.file.is_none() { " in the kernel" } else { " in scenarios" }
    );
    for set in &algorithm.sets {
        text += &format!("    {:<12} {}\n", set.name, set.source);
    }
    let columns = |cells: Vec<String>| -> String {
        cells.iter().map(|cell| format!(" {cell:>11}")).collect::<Vec<_>>().concat()
    };
    let names = columns(algorithm.sets.iter().map(|set| set.name.to_owned()).collect());
    text += &format!("  {:<20}{names}  unit\n", "parameter");
    for (n, param) in algorithm.params.iter().enumerate() {
        let values = algorithm.sets.iter().map(|set| set.params.values()[n].to_string());
        let values = columns(values.collect());
        text += &format!("  {:<20}{values}  {}: {}\n", param.name, param.unit, param.what);
    }
    text
}

fn plot(name: &str, set: Option<&str>, output: Option<PathBuf>) -> Result<(), Failure> {
    let svg = report::congestion_picture::window_svg(&parameters(Algorithm::find(name)?, set)?);
    let Some(file) = output else {
        print_text(&svg);
        return Ok(());
    };
    std::fs::write(&file, svg)
        .map_err(|e| Failure::failed(format!("cannot write {}: {e}", file.display())))
}
