//! The table of codes and its page agree.

use trainyard_diagnostic::CODES;

#[test]
fn every_code_has_its_row_in_the_page_of_messages() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/errors.md");
    let page = std::fs::read_to_string(page).expect("docs/errors.md is there");
    for code in CODES {
        let row = format!("| {} | {} | {} |", code.name, code.exit, code.title);
        assert!(page.contains(&row), "docs/errors.md lacks the row: {row}");
    }
    assert!(
        CODES.windows(2).all(|pair| pair[0].name < pair[1].name),
        "codes are in order and unique"
    );
}
