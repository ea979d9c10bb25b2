//! Resolution of a path to the prefix of a checkpoint.

use std::ffi::OsString;
use std::fs::File;
use std::io::Read as _;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

use crate::tensor_bundle::Error;
use crate::tensor_bundle::error::shown;
use crate::tensor_bundle::shard::file_bytes;

/// Suffix of the index file.
const INDEX: &str = ".index";
/// Name of the file that names the newest checkpoint of a folder.
const STATE_FILE: &str = "checkpoint";
/// Field with the prefix of the newest checkpoint.
const STATE_FIELD: &str = "model_checkpoint_path";
/// Largest state file, in bytes.
const STATE_BYTES_MAX: u64 = 16 << 20;

/// Returns the prefix of the checkpoint at a path. The path is the prefix itself, the index file, or a folder whose
/// state file names the checkpoint.
pub(crate) fn resolve(path: &Path) -> Result<PathBuf, Error> {
    if path.is_dir() && !index_path(path).is_file() {
        return latest(path);
    }
    let name = path.as_os_str().as_encoded_bytes();
    match name.strip_suffix(INDEX.as_bytes()) {
        Some(prefix) if !prefix.is_empty() => {
            Ok(PathBuf::from(OsString::from_vec(prefix.to_vec())))
        }
        _ => Ok(path.to_owned()),
    }
}

/// Returns the index file of a prefix.
pub(crate) fn index_path(prefix: &Path) -> PathBuf {
    with_ending(prefix, INDEX)
}

/// Returns a data file of a prefix.
pub(crate) fn shard_path(prefix: &Path, shard: usize, shards: usize) -> PathBuf {
    with_ending(prefix, &format!(".data-{shard:05}-of-{shards:05}"))
}

fn with_ending(prefix: &Path, ending: &str) -> PathBuf {
    let mut name = prefix.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

/// Reads a whole file of at most `max` bytes.
pub(crate) fn read_file(path: &Path, max: u64) -> Result<Vec<u8>, Error> {
    let bytes = file_bytes(path)?;
    Error::check_limit(path, "the size in bytes", bytes, max)?;
    let mut out = Vec::with_capacity(bytes as usize);
    let file = File::open(path).map_err(Error::io("open", path))?;
    file.take(max)
        .read_to_end(&mut out)
        .map_err(Error::io("read", path))?;
    Ok(out)
}

/// Returns the prefix in the state file of a folder. A relative path is relative to the folder.
fn latest(folder: &Path) -> Result<PathBuf, Error> {
    let path = folder.join(STATE_FILE);
    let text = read_file(&path, STATE_BYTES_MAX)?;
    let mut lines = text.split(|&byte| byte == b'\n');
    let named = lines.find_map(|line| {
        let rest = line
            .trim_ascii_start()
            .strip_prefix(STATE_FIELD.as_bytes())?;
        unquote(rest.trim_ascii_start().strip_prefix(b":")?.trim_ascii())
    });
    let named = named.filter(|name| !name.is_empty() && !name.contains(&0));
    let expected = || {
        Error::damaged(
            &path,
            format!("it has no line `{STATE_FIELD}: \"...\"` with the prefix of a checkpoint"),
        )
    };
    let prefix = folder.join(OsString::from_vec(named.ok_or_else(expected)?));
    let index = index_path(&prefix);
    if index.is_file() {
        return Ok(prefix);
    }
    let what = format!(
        "its {STATE_FIELD} is `{}`, but there is no {}, give the prefix itself if the folder was moved",
        shown(&prefix.to_string_lossy()),
        index.display()
    );
    Err(Error::damaged(&path, what))
}

/// Decodes a quoted string in the text format of protocol buffers.
fn unquote(text: &[u8]) -> Option<Vec<u8>> {
    let (&quote, rest) = text.split_first()?;
    let inner = rest
        .strip_suffix(&[quote])
        .filter(|_| quote == b'"' || quote == b'\'')?;
    let mut out = Vec::with_capacity(inner.len());
    let mut bytes = inner.iter().copied().peekable();
    while let Some(byte) = bytes.next() {
        if byte == quote {
            return None;
        }
        if byte != b'\\' {
            out.push(byte);
            continue;
        }
        out.push(match bytes.next()? {
            b'n' => b'\n',
            b't' => b'\t',
            b'r' => b'\r',
            same @ (b'\\' | b'"' | b'\'') => same,
            first @ b'0'..=b'7' => {
                let mut value = u32::from(first - b'0');
                for _ in 0..2 {
                    let Some(digit) = bytes.next_if(|digit| (b'0'..=b'7').contains(digit)) else {
                        break;
                    };
                    value = value * 8 + u32::from(digit - b'0');
                }
                u8::try_from(value).ok()?
            }
            _ => return None,
        });
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoted_paths_are_read_with_their_escapes() {
        assert_eq!(
            unquote(br#""model.ckpt-30""#),
            Some(b"model.ckpt-30".to_vec())
        );
        assert_eq!(
            unquote(br#""a\"b\\\346\227\245\t""#),
            Some("a\"b\\日\t".as_bytes().to_vec())
        );
        for wrong in [
            r#"""""#,
            r#"""#,
            r#""a"#,
            r#""\"#,
            r#""\x""#,
            r#""\777""#,
            "model",
            "",
        ] {
            assert_eq!(unquote(wrong.as_bytes()), None, "{wrong}");
        }
    }

    #[test]
    fn the_index_file_names_its_prefix() {
        let resolved = |path: &str| resolve(Path::new(path)).expect("it is no folder");
        assert_eq!(
            resolved("nowhere/model.ckpt-30.index"),
            Path::new("nowhere/model.ckpt-30")
        );
        assert_eq!(
            resolved("nowhere/model.ckpt-30"),
            Path::new("nowhere/model.ckpt-30")
        );
        assert_eq!(resolved(".index"), Path::new(".index"));
    }

    #[test]
    fn data_files_are_numbered_with_five_digits() {
        assert_eq!(
            shard_path(Path::new("a/b"), 3, 12),
            Path::new("a/b.data-00003-of-00012")
        );
    }
}
