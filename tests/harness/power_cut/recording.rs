//! What a program did to its files and said, by strace.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::disk::Act;

/// The calls that change files, or make them durable.
const CALLS: &str = "openat,open,creat,mkdir,mkdirat,write,writev,pwrite64,pwritev,pwritev2,fsync,fdatasync,ftruncate,truncate,fallocate,\
                     rename,renameat,renameat2,unlink,unlinkat,rmdir,link,linkat,symlink,symlinkat,copy_file_range,sendfile,splice";

/// The arguments of a strace that records what is added to them: each text whole, each byte in hexadecimal digits, each
/// descriptor with its path.
pub(super) fn arguments(output: &Path) -> Vec<String> {
    // By the filter the kernel stops a program at these calls alone.
    let mut arguments: Vec<String> = [
        "-f",
        "--seccomp-bpf",
        "-y",
        "-qq",
        "-xx",
        "-s",
        "100000000",
        "-o",
    ]
    .map(str::to_owned)
    .into();
    arguments.push(output.display().to_string());
    arguments.extend(["-e".to_owned(), format!("trace={CALLS}")]);
    arguments
}

/// Reads a recording: what happened below a folder, and what was written to outputs (descriptors 1 and 2 of any process), in
/// the order in which the calls ended.
///
/// # Errors
/// A call that changes files below the folder in a way that is not known here.
pub(super) fn read(text: &str, folder: &Path) -> Result<Vec<Act>, String> {
    let mut acts = Vec::new();
    // The beginning of a call of each thread, with the flush that has begun.
    let mut begun: BTreeMap<&str, (String, usize)> = BTreeMap::new();
    for (number, line) in text.lines().enumerate() {
        let (thread, rest) = line.split_once(' ').unwrap_or(("", line));
        let rest = rest.trim_start();
        if rest.starts_with("+++") || rest.starts_with("---") {
            continue;
        }
        if let Some(beginning) = rest.strip_suffix("<unfinished ...>") {
            begun.insert(thread, (beginning.trim_end().to_owned(), number));
            begin_flush(beginning, number, &mut acts);
            continue;
        }
        let joined;
        let (call, number) = match rest.strip_prefix("<... ") {
            Some(end) => {
                let Some((beginning, number)) = begun.remove(thread) else {
                    continue;
                };
                let end = end.split_once(" resumed>").map_or("", |(_, end)| end);
                joined = beginning + end;
                (joined.as_str(), number)
            }
            None => {
                begin_flush(rest, number, &mut acts);
                (rest, number)
            }
        };
        if let Some(act) =
            act(call, number, folder).map_err(|why| format!("{why}: {}", cut(call)))?
        {
            acts.extend(act);
        }
    }
    Ok(acts)
}

fn cut(call: &str) -> String {
    call.chars().take(400).collect()
}

fn begin_flush(call: &str, number: usize, acts: &mut Vec<Act>) {
    if (call.starts_with("fsync(") || call.starts_with("fdatasync("))
        && let Some(path) = paths(call).into_iter().next()
    {
        acts.push(Act::BeginFlush { path, call: number });
    }
}

/// What a call did; nothing if it failed, or touched no file below the folder.
fn act(call: &str, number: usize, folder: &Path) -> Result<Option<Vec<Act>>, String> {
    let Some((name, rest)) = call.split_once('(') else {
        return Ok(None);
    };
    let Some((arguments, result)) = rest.rsplit_once(") ") else {
        return Ok(None);
    };
    let Some(result) = result.trim_start().strip_prefix("= ") else {
        return Ok(None);
    };
    if result.starts_with('-') || result.starts_with('?') {
        return Ok(None);
    }
    let given = paths(arguments);
    let texts = texts(arguments);
    // A name of a call is relative to the folder before it, if there is one.
    let named = |nth: usize| -> Result<PathBuf, String> {
        let name =
            PathBuf::from(String::from_utf8_lossy(texts.get(nth).ok_or("no name")?).into_owned());
        match given.get(nth).or(given.first()) {
            Some(folder) => Ok(folder.join(name)),
            None if name.is_absolute() => Ok(name),
            None => Err(format!(
                "{} is relative to a folder that is not known",
                name.display()
            )),
        }
    };
    let opened = |path: &Path| path.starts_with(folder);
    let first = given.first().cloned().unwrap_or_default();
    let last_number = || {
        arguments
            .rsplit(", ")
            .next()
            .and_then(|number| number.parse::<usize>().ok())
            .ok_or("no number")
    };
    Ok(match name {
        "open" | "openat" | "creat" => {
            let path = paths(result).into_iter().next().unwrap_or_default();
            let writes = ["O_WRONLY", "O_RDWR"]
                .iter()
                .any(|flag| arguments.contains(flag));
            // A file without a name is gone with the process that made it.
            let is_named = !arguments.contains("O_TMPFILE");
            (writes && is_named && opened(&path)).then(|| {
                vec![Act::Open {
                    path,
                    is_emptied: arguments.contains("O_TRUNC"),
                    at_end: arguments.contains("O_APPEND"),
                }]
            })
        }
        "write" | "writev" if arguments.starts_with("1<") || arguments.starts_with("2<") => {
            Some(vec![Act::Say(
                String::from_utf8_lossy(&texts.concat()).into_owned(),
            )])
        }
        "write" | "writev" if opened(&first) => Some(vec![Act::Write {
            path: first,
            place: None,
            bytes: written(texts, result)?,
        }]),
        "pwrite64" | "pwritev" if opened(&first) => Some(vec![Act::Write {
            path: first,
            place: Some(last_number()?),
            bytes: written(texts, result)?,
        }]),
        "fsync" | "fdatasync" => Some(vec![Act::EndFlush {
            path: first,
            call: number,
        }]),
        "ftruncate" if opened(&first) => Some(vec![Act::Length {
            path: first,
            length: last_number()?,
        }]),
        "mkdir" | "mkdirat" => Some(vec![Act::Folder(named(0)?)]),
        "unlink" | "unlinkat" | "rmdir" => Some(vec![Act::Remove(named(0)?)]),
        "link" | "linkat" => Some(vec![Act::Link {
            from: named(0)?,
            to: named(1)?,
        }]),
        "rename" | "renameat" | "renameat2" if arguments.contains("RENAME_EXCHANGE") => {
            Some(vec![Act::Exchange {
                one: named(0)?,
                other: named(1)?,
            }])
        }
        "rename" | "renameat" | "renameat2" => Some(vec![Act::Rename {
            from: named(0)?,
            to: named(1)?,
        }]),
        // What is written elsewhere may name the folder.
        "write" | "writev" | "pwrite64" | "pwritev" => None,
        _ if given.iter().any(|path| opened(path))
            || texts
                .iter()
                .any(|text| opened(Path::new(&*String::from_utf8_lossy(text)))) =>
        {
            return Err(format!("what `{name}` does to a file is not known here"));
        }
        _ => None,
    })
}

/// The bytes of a call that says how many it has written.
fn written(texts: Vec<Vec<u8>>, result: &str) -> Result<Vec<u8>, String> {
    let mut bytes = texts.concat();
    let count = result
        .split_whitespace()
        .next()
        .and_then(|count| count.parse().ok());
    bytes.truncate(count.ok_or("no count")?);
    Ok(bytes)
}

/// The paths of descriptors, in order.
fn paths(text: &str) -> Vec<PathBuf> {
    pieces(text, "<\\x", '>')
        .map(|bytes| PathBuf::from(String::from_utf8_lossy(&bytes).into_owned()))
        .collect()
}

/// The texts in quotation marks, in order.
fn texts(text: &str) -> Vec<Vec<u8>> {
    pieces(text, "\"", '"').collect()
}

/// What stands between a beginning and an end, of which the hexadecimal digits are read.
fn pieces<'a>(text: &'a str, begin: &'a str, end: char) -> impl Iterator<Item = Vec<u8>> + 'a {
    let mut rest = text;
    std::iter::from_fn(move || {
        let at = rest.find(begin)?;
        rest = &rest[at + 1..];
        let (piece, after) = rest.split_once(end)?;
        rest = after;
        let bytes = piece.split("\\x").skip(1);
        Some(
            bytes
                .filter_map(|digits| u8::from_str_radix(digits.get(..2)?, 16).ok())
                .collect(),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(text: &str) -> String {
        text.bytes().map(|byte| format!("\\x{byte:02x}")).collect()
    }

    #[test]
    fn calls_of_several_threads_are_read_in_the_order_in_which_they_end() {
        let (folder, file) = (hex("/d"), hex("/d/a"));
        let nameless = hex("/d/#17");
        let text = format!(
            "7 openat(AT_FDCWD<{folder}>, \"{file}\", O_WRONLY|O_CREAT, 0666) = 3<{file}>\n\
             7 write(3<{file}>, \"{}\", 2) = 2\n\
             7 fsync(3<{file}> <unfinished ...>\n\
             8 write(1<{}>, \"{}\", 5) = 5\n\
             8 openat(AT_FDCWD, \"{folder}\", O_RDWR|O_EXCL|O_TMPFILE, 0600) = 5<{nameless}>\n\
             8 unlinkat(4<{folder}>, \"{}\", 0) = -1 ENOENT (No such file or directory)\n\
             7 <... fsync resumed>)             = 0\n\
             8 rename(\"{file}\", \"{}\") = 0\n",
            hex("hi"),
            hex("/dev/null"),
            hex("told\n"),
            hex("b"),
            hex("/d/b"),
        );
        let acts = read(&text, Path::new("/d")).expect("it is read");
        let path = PathBuf::from("/d/a");
        assert_eq!(
            acts,
            [
                Act::Open {
                    path: path.clone(),
                    is_emptied: false,
                    at_end: false
                },
                Act::Write {
                    path: path.clone(),
                    place: None,
                    bytes: b"hi".to_vec()
                },
                Act::BeginFlush {
                    path: path.clone(),
                    call: 2
                },
                Act::Say("told\n".to_owned()),
                Act::EndFlush {
                    path: path.clone(),
                    call: 2
                },
                Act::Rename {
                    from: path,
                    to: "/d/b".into()
                },
            ]
        );
    }

    #[test]
    fn a_call_that_changes_files_in_an_unknown_way_is_no_recording() {
        let file = hex("/d/a");
        let text = format!("7 copy_file_range(3<{file}>, NULL, 4<{file}>, NULL, 5, 0) = 5\n");
        assert!(read(&text, Path::new("/d")).is_err());
        assert_eq!(read(&text, Path::new("/e")), Ok(Vec::new()));
    }
}
