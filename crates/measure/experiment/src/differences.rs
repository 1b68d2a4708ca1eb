// SPDX-License-Identifier: GPL-2.0-or-later
//! Where two scenarios' runs differ, for people.

use serde_json::Value;

/// The most differences that are listed.
const MOST: usize = 8;

/// Where `now` differs from `before`, by keys, as in `links[0].forward.rate_bps: 10000000, was 20000000`.
pub fn differences(before: &Value, now: &Value) -> Vec<String> {
    let mut all = Vec::new();
    compare("", before, now, &mut all);
    if all.len() > MOST {
        let more = all.len() - MOST;
        all.truncate(MOST);
        all.push(format!("and {more} more"));
    }
    all
}

fn compare(key: &str, before: &Value, now: &Value, all: &mut Vec<String>) {
    match (before, now) {
        (Value::Object(before), Value::Object(now)) => {
            let added = now.keys().filter(|name| !before.contains_key(*name));
            for name in before.keys().chain(added) {
                let key = if key.is_empty() { name.clone() } else { format!("{key}.{name}") };
                let of = |object: &serde_json::Map<String, Value>| {
                    object.get(name).cloned().unwrap_or(Value::Null)
                };
                compare(&key, &of(before), &of(now), all);
            }
        }
        (Value::Array(before), Value::Array(now)) if before.len() == now.len() => {
            for (at, (before, now)) in before.iter().zip(now).enumerate() {
                compare(&format!("{key}[{at}]"), before, now, all);
            }
        }
        (Value::Array(before), Value::Array(now)) => {
            all.push(format!("{key}: {} entries, were {}", now.len(), before.len()));
        }
        (before, now) if before == now => {}
        (before, now) => all.push(format!("{key}: {}, was {}", short(now), short(before))),
    }
}

fn short(value: &Value) -> String {
    const LONGEST: usize = 60;
    let text = value.to_string();
    if text.chars().count() <= LONGEST {
        return text;
    }
    text.chars().take(LONGEST).chain("...".chars()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn differences_are_named_by_key() {
        let before =
            json!({"seed": 1, "links": [{"rate": 10, "delay": 5}], "flows": [1], "gone": true});
        let now = json!({"seed": 1, "links": [{"rate": 20, "delay": 5}], "flows": [1, 2], "new": {"a": 1}});
        assert_eq!(
            differences(&before, &now),
            [
                "links[0].rate: 20, was 10",
                "flows: 2 entries, were 1",
                "gone: null, was true",
                "new: {\"a\":1}, was null"
            ]
        );
        assert_eq!(differences(&now, &now), [""; 0]);
        let many = |add: i32| json!((0..20).map(|n| n + add).collect::<Vec<_>>());
        let all = differences(&many(0), &many(1));
        assert_eq!((all.len(), all[8].as_str()), (9, "and 12 more"));
        let long = differences(&json!({"a": "x".repeat(1000)}), &json!({"a": 1}));
        assert!(long[0].len() < 100, "{long:?}");
    }
}
