// SPDX-License-Identifier: GPL-2.0-or-later
//! docs/congestion shows what the code draws. `LONGHAUL_BLESS=1` redraws it.

use congestion::Algorithm;
use longhaul_report::congestion_picture;
use std::{
    env, fs,
    path::{Path, PathBuf},
};

fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/congestion")
}

fn is_current(file: &Path, drawn: &str) -> bool {
    if env::var_os("LONGHAUL_BLESS").is_some() {
        fs::write(file, drawn).unwrap();
    }
    fs::read_to_string(file).unwrap_or_default() == drawn
}

const BLESS: &str = "if that is meant: LONGHAUL_BLESS=1 cargo test -p longhaul-report";

/// Of algorithms that have a page. One of your own has none until you write it.
#[test]
fn pictures_of_windows_are_current() {
    let file =
        |algorithm: &Algorithm, kind: &str| docs().join(format!("{}.{kind}", algorithm.name));
    let stale: Vec<&str> = Algorithm::all()
        .iter()
        .filter(|algorithm| file(algorithm, "md").exists())
        .filter(|algorithm| {
            let drawn = congestion_picture::window_svg(algorithm.default_set());
            !is_current(&file(algorithm, "svg"), &drawn)
        })
        .map(|algorithm| algorithm.name)
        .collect();
    assert!(stale.is_empty(), "docs/congestion: the code draws {stale:?} otherwise; {BLESS}");
}

/// CUBIC's window under periodic loss: `W_max` = 1.054 (RTT / p)^0.75 / 0.925, without fast convergence.
#[test]
fn picture_of_cubics_convergence_is_current() {
    let cubic = Algorithm::find("cubic").unwrap().default_set().clone();
    let drawn =
        congestion_picture::convergence_svg(&cubic.with("fast_convergence", 0).unwrap(), 203);
    assert!(is_current(&docs().join("cubic-convergence.svg"), &drawn), "{BLESS}");
}
