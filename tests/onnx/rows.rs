//! Generated records: numbers, words, lists and what is missing of them, with a label for each head.

use std::fmt::Write as _;
use std::path::Path;

/// The header.
const HEADER: &str = "age,income,pair,city,color,tags,tag_weights,code,level,slot,visits,origin,target,word,brand,\
                      binary,class,labels,amount,amounts,count,share";

/// A generator of numbers (xorshift).
struct Draw(u64);

impl Draw {
    /// Returns a number in `0..1`.
    fn unit(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 40) as f64 / f64::from(1 << 24)
    }

    /// Returns a number below `end`.
    fn below(&mut self, end: u64) -> u64 {
        (self.unit() * end as f64) as u64
    }

    /// Returns a text, or nothing in one case of ten.
    fn or_missing(&mut self, text: String) -> String {
        if self.below(10) == 0 { String::new() } else { text }
    }

    /// Returns up to four texts.
    fn list(&mut self, mut one: impl FnMut(&mut Self) -> String) -> String {
        let texts: Vec<String> = (0..self.below(5)).map(|_| one(self)).collect();
        texts.join("|")
    }
}

/// Writes `count` records.
pub(crate) fn write(path: &Path, count: usize, seed: u64) {
    let mut text = format!("{HEADER}\n");
    let mut draw = Draw(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    for _ in 0..count {
        let (age, income) = (18.0 + 60.0 * draw.unit(), (12.0 * draw.unit()).exp() - 50.0);
        let pair = format!("{:.3}|{:.3}", 4.0 * draw.unit() - 2.0, 4.0 * draw.unit() - 2.0);
        let (city, color) = (draw.below(6), draw.below(4));
        let shown_age = draw.or_missing(format!("{age:.2}"));
        let shown_city = draw.or_missing(format!("city{city}"));
        let shown_color = draw.or_missing(format!("color{color}"));
        let tags = draw.list(|draw| format!("tag{}", draw.below(7)));
        let each = tags.split('|').filter(|tag| !tag.is_empty());
        let weights: Vec<String> = each.map(|_| format!("{:.2}", 3.0 * draw.unit() - 0.5)).collect();
        let code = draw.below(6) * 10;
        let code = draw.or_missing(code.to_string());
        let level = draw.below(9) as i64 - 2;
        let slot = draw.below(5);
        let slot = draw.or_missing(slot.to_string());
        let visits = draw.list(|draw| draw.below(8).to_string());
        let (origin, target) = (draw.below(5), draw.below(5));
        let word = draw.below(40);
        let word = draw.or_missing(format!("word{word}"));
        let brand = draw.below(12);
        let brand = draw.or_missing(format!("brand{brand}"));
        let score = (age - 48.0) / 30.0 + city as f64 * 0.4 - color as f64 * 0.5 + draw.unit();
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
             {origin},{target},{word},{brand},{},{class},{labels},{score:.3},{score:.3}|{:.3},{},{:.3}",
            weights.join("|"),
            u8::from(score > 0.5),
            age / 40.0,
            (score + 2.0).max(0.0) as u64,
            1.0 / (1.0 + (-score).exp()),
        );
    }
    std::fs::write(path, text).expect("the records are written");
}
