// SPDX-License-Identifier: GPL-2.0-or-later
//! Each claim of `docs/security/claims.md` names tests that are there.

use std::{fs, path::Path};

#[test]
fn each_claim_of_security_names_its_tests() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let page = fs::read_to_string(root.join("docs/security/claims.md")).unwrap();
    let (mut claims, mut in_claims) = (0, false);
    for line in page.lines() {
        if line.starts_with('|') && line.contains("| Claim | Test |") {
            in_claims = true;
        } else if !line.starts_with('|') {
            in_claims = false;
        } else if in_claims && !line.starts_with("|---") {
            claims += 1;
            let tests: Vec<_> = line.split('`').filter(|word| word.contains(".rs::")).collect();
            assert!(!tests.is_empty(), "a claim without a test: {line}");
            for test in tests {
                let (file, function) = test.split_once("::").unwrap();
                let halves =
                    ["", "spine", "move", "measure"].map(|half| root.join("crates").join(half));
                let text = halves.iter().find_map(|half| fs::read_to_string(half.join(file)).ok());
                let text = text.unwrap_or_else(|| panic!("{test}: no such file"));
                assert!(text.contains(&format!("fn {function}(")), "{test} is not there");
            }
        }
    }
    assert!(claims > 80, "{claims}");
}
