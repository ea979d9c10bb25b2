//! What the tree holds, and what its text does not speak of.

use crate::tidy::{assert_none, files, read, root};

trial!(the_top_level_holds_what_the_design_names);
fn the_top_level_holds_what_the_design_names() {
    let known = [
        "Cargo.toml",
        "Cargo.lock",
        "crates",
        "proto",
        "deploy",
        "configs",
        "tests",
        "docs",
        "README.md",
        "LICENSE",
        "rust-toolchain.toml",
        "rustfmt.toml",
        "clippy.toml",
        ".deny.toml",
        ".ci",
        ".git",
        ".gitignore",
    ];
    let ignored = read(&root().join(".gitignore"));
    let ignores = |name: &str| {
        let mut patterns = ignored.lines().filter_map(|line| line.strip_prefix('/'));
        patterns.any(|pattern| match pattern.strip_suffix('*') {
            Some(start) => name.starts_with(start),
            None => name == pattern,
        })
    };
    let entries = std::fs::read_dir(root())
        .expect("the root")
        .filter_map(Result::ok);
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let offenders: Vec<String> = names
        .filter(|name| !known.contains(&name.as_str()) && !ignores(name))
        .collect();
    assert_none("strangers at the top", &offenders);
}

trial!(text_speaks_of_the_project_alone);
fn text_speaks_of_the_project_alone() {
    // Written in parts, so that this file does not hold what it looks for.
    let forbidden = [
        ["/wo", "rk/"].concat(),
        ["/ro", "ot/"].concat(),
        ["crates.io", "/api"].concat(),
        ["pypi", ".org"].concat(),
    ];
    let root = root();
    let folders =
        ["crates", "proto", "configs", "tests", "docs", "deploy"].map(|folder| root.join(folder));
    let all = folders
        .iter()
        .flat_map(|folder| files(folder, ""))
        .chain([root.join("README.md"), root.join("Cargo.toml")]);
    let mut offenders = Vec::new();
    for path in all.filter(|path| !path.to_string_lossy().ends_with(".csv")) {
        // Recorded checkpoints are not text.
        let bytes = std::fs::read(&path).expect("a file that was just listed");
        for (number, line) in String::from_utf8_lossy(&bytes).lines().enumerate() {
            if forbidden.iter().any(|word| line.contains(word)) {
                offenders.push(format!(
                    "{}:{}: {}",
                    path.display(),
                    number + 1,
                    line.trim()
                ));
            }
        }
    }
    assert_none("paths and hosts of one machine", &offenders);
}

trial!(the_page_on_custom_models_quotes_the_examples);
fn the_page_on_custom_models_quotes_the_examples() {
    let folders = ["trainyard", "autodiff-burn"];
    let folders = folders.map(|name| root().join("crates").join(name).join("examples"));
    let quoted: Vec<String> = folders
        .iter()
        .flat_map(|folder| [".rs", ".toml"].map(|ending| files(folder, ending)))
        .flatten()
        .map(|path| read(&path))
        .collect();
    let page = read(&root().join("docs").join("custom-models.md"));
    // Every other piece stands between two fences; its first line is the language.
    let blocks = page
        .split("```")
        .skip(1)
        .step_by(2)
        .filter_map(|block| block.split_once('\n'));
    let code: Vec<&str> = blocks
        .filter(|(language, text)| {
            *language == "rust" || *language == "toml" && !text.contains("[dependencies]")
        })
        .map(|(_, text)| text)
        .collect();
    assert!(code.len() >= 6, "only {} blocks of code", code.len());
    let offenders: Vec<String> = code
        .into_iter()
        .filter(|text| !quoted.iter().any(|file| file.contains(*text)))
        .map(str::to_owned)
        .collect();
    assert_none("code of the page that is not in an example", &offenders);
}
