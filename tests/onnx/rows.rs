//! Generated records: numbers, words, lists and what is missing of them, with a label for each head.

use std::fmt::Write as _;
use std::path::Path;

use trainyard_tests::Draw;

/// The header.
const HEADER: &str = "age,income,pair,city,color,tags,tag_weights,code,level,slot,visits,origin,target,word,brand,\
                      binary,class,labels,amount,amounts,count,share,moment";

/// A text and a number that the jobs call missing.
pub(crate) const MISSING: [&str; 2] = ["none", "-999"];

/// Returns a text; in one case of ten nothing, and in another one what stands for nothing: a text, or beside numbers a number.
fn or_missing(draw: &mut Draw, text: String) -> String {
    match draw.below(10) {
        0 => String::new(),
        1 if text.starts_with(char::is_alphabetic) => MISSING[0].to_owned(),
        1 => MISSING[1].to_owned(),
        _ => text,
    }
}

/// Returns up to four texts.
fn list(draw: &mut Draw, mut one: impl FnMut(&mut Draw) -> String) -> String {
    let texts: Vec<String> = (0..draw.below(5)).map(|_| one(draw)).collect();
    texts.join("|")
}

/// Writes `count` records.
pub(crate) fn write(path: &Path, count: usize, seed: u64) {
    let mut text = format!("{HEADER}\n");
    let mut draw = Draw::new(seed);
    for _ in 0..count {
        let age = 18.0 + 60.0 * draw.fraction();
        let income = (12.0 * draw.fraction()).exp() - 50.0;
        let pair = format!(
            "{:.3}|{:.3}",
            4.0 * draw.fraction() - 2.0,
            4.0 * draw.fraction() - 2.0
        );
        let city = draw.below(6);
        let color = draw.below(4);
        let shown_age = or_missing(&mut draw, format!("{age:.2}"));
        let shown_city = or_missing(&mut draw, format!("city{city}"));
        let shown_color = or_missing(&mut draw, format!("color{color}"));
        let tags = list(&mut draw, |draw| format!("tag{}", draw.below(7)));
        let each = tags.split('|').filter(|tag| !tag.is_empty());
        let weights: Vec<String> = each
            .map(|_| format!("{:.2}", 3.0 * draw.fraction() - 0.5))
            .collect();
        let code = draw.below(6) * 10;
        let code = or_missing(&mut draw, code.to_string());
        let level = draw.below(9) as i64 - 2;
        let slot = draw.below(5);
        let slot = or_missing(&mut draw, slot.to_string());
        let visits = list(&mut draw, |draw| match draw.below(9) {
            8 => MISSING[1].to_owned(),
            visit => visit.to_string(),
        });
        let origin = draw.below(5);
        let target = draw.below(5);
        let word = draw.below(40);
        let word = or_missing(&mut draw, format!("word{word}"));
        let brand = draw.below(12);
        let brand = or_missing(&mut draw, format!("brand{brand}"));
        let score = (age - 48.0) / 30.0 + city as f64 * 0.4 - color as f64 * 0.5 + draw.fraction();
        let moment = draw.below(4_000_000_000) as i64 - 2_000_000_000;
        let moment = or_missing(&mut draw, moment.to_string());
        let class = ["low", "middle", "high"][((score + 1.0).clamp(0.0, 2.9)) as usize];
        let labels = match (score > 0.5, level > 2) {
            (true, true) => "p|q",
            (true, false) => "p",
            (false, true) => "q|r",
            (false, false) => "",
        };
        let _ = writeln!(
            text,
            "{shown_age},{income:.2},{pair},{shown_city},{shown_color},{tags},{},{code},{level},{slot},{visits},\
             {origin},{target},{word},{brand},{},{class},{labels},{score:.3},{score:.3}|{:.3},{},{:.3},{moment}",
            weights.join("|"),
            u8::from(score > 0.5),
            age / 40.0,
            (score + 2.0).max(0.0) as u64,
            1.0 / (1.0 + (-score).exp()),
        );
    }
    std::fs::write(path, text).expect("the records are written");
}
