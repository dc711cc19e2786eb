//! `vshare doctor --json`, on whatever machine this is. What it finds before which driver is in shim-tests.

use serde_json::Value;

use crate::{stderr, vshare};

#[test]
fn every_check_has_a_status_and_says_what_to_do_unless_it_is_good() {
    let output = vshare(&["doctor", "--json", "sh"]);
    let said: Value = serde_json::from_slice(&output.stdout).unwrap();
    let checks = said["checks"].as_array().unwrap();
    for name in [
        "library",
        "preload",
        "variables",
        "driver",
        "visible",
        "memory",
        "shared memory",
        "container",
        "program",
    ] {
        assert!(
            checks.iter().any(|check| check["name"] == name),
            "no {name}"
        );
    }
    for check in checks {
        let good = check["status"] == "ok";
        assert!(
            good || check["status"] == "warn" || check["status"] == "fail",
            "{check}"
        );
        assert!(!check["found"].as_str().unwrap().is_empty());
        assert_eq!(check["advice"].is_null(), good, "{check}");
    }
    let failed = checks.iter().any(|check| check["status"] == "fail");
    assert_eq!(said["ok"], !failed);
    assert_eq!(output.status.code(), Some(i32::from(failed)));
    assert_eq!(stderr(&output), "");
    assert_eq!(vshare(&["doctor", "--nonsense"]).status.code(), Some(2));
}
