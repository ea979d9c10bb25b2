//! Parser of the header of a NumPy file (`numpy.lib.format`).

use super::Kind;

/// First bytes of every NumPy file.
const MAGIC: &[u8] = b"\x93NUMPY";

/// Bytes before the header's length.
const VERSION_END: usize = MAGIC.len() + 2;

/// Longest header, in bytes. NumPy refuses longer headers, too.
const HEADER_BYTES_MAX: usize = 10_000;

/// Header of an array: type, shape, and the offset of the values in the file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) kind: Kind,
    pub(super) shape: Vec<usize>,
    pub(super) values_begin: u64,
}

/// Returns the begin and end of the header's text. `start` are the first bytes of the file.
///
/// # Errors
/// The file is not a NumPy file, or its version or header is not supported.
pub(super) fn text_range(start: &[u8]) -> Result<(usize, usize), String> {
    if !start.starts_with(MAGIC) {
        return Err("it does not begin as a NumPy array does".to_owned());
    }
    let length_at = |count: usize| {
        start
            .get(VERSION_END..VERSION_END + count)
            .ok_or("it ends in its header")
    };
    let (begin, length) = match start.get(MAGIC.len()) {
        Some(1) => {
            let length: [u8; 2] = length_at(2)?
                .try_into()
                .map_err(|_| "it ends in its header")?;
            (VERSION_END + 2, usize::from(u16::from_le_bytes(length)))
        }
        Some(2 | 3) => {
            let length: [u8; 4] = length_at(4)?
                .try_into()
                .map_err(|_| "it ends in its header")?;
            (VERSION_END + 4, u32::from_le_bytes(length) as usize)
        }
        Some(version) => return Err(format!("its format is version {version}, known are 1 to 3")),
        None => return Err("it ends in its header".to_owned()),
    };
    if length > HEADER_BYTES_MAX {
        return Err(format!(
            "its header has {length} bytes, at most {HEADER_BYTES_MAX} are read"
        ));
    }
    Ok((begin, begin + length))
}

/// Parses the text of a header: `{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }`.
///
/// # Errors
/// The array does not hold floating-point numbers or 64-bit integers, little-endian, in row-major order.
pub(super) fn read(text: &str, values_begin: u64) -> Result<Header, String> {
    let value = |key: &str| {
        let (_, behind) = text
            .split_once(&format!("'{key}':"))
            .ok_or(format!("its header lacks {key}"))?;
        Ok::<&str, String>(behind.trim_start())
    };
    let described = value("descr")?;
    let described = described
        .strip_prefix('\'')
        .and_then(|behind| behind.split_once('\''));
    let kind = match described.map(|(kind, _)| kind) {
        Some("<f4") => Kind::F32,
        Some("<f8") => Kind::F64,
        Some("<f2") => Kind::F16,
        Some("<i8" | "<u8") => Kind::Integer,
        Some(other) => {
            return Err(format!(
                "its values are `{other}`: save them with array.astype('float32')"
            ));
        }
        None => return Err("its values are records: save an array of numbers".to_owned()),
    };
    let shape = value("shape")?
        .strip_prefix('(')
        .and_then(|behind| behind.split_once(')'));
    let (shape, _) = shape.ok_or("its header has no shape")?;
    let dimensions = shape
        .split(',')
        .map(str::trim)
        .filter(|text| !text.is_empty());
    let shape = dimensions
        .map(|text| {
            text.parse()
                .map_err(|_| format!("its shape holds `{text}`"))
        })
        .collect::<Result<Vec<usize>, String>>()?;
    if value("fortran_order")?.starts_with("True") && shape.len() > 1 {
        return Err("it lies column by column: save it with numpy.ascontiguousarray".to_owned());
    }
    Ok(Header {
        kind,
        shape,
        values_begin,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_that_numpy_writes_are_read() {
        let header = |text| read(text, 128).expect("it is read");
        let matrix = header("{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }   \n");
        assert_eq!(
            matrix,
            Header {
                kind: Kind::F32,
                shape: vec![3, 4],
                values_begin: 128
            }
        );
        assert_eq!(
            header("{'descr': '<f8', 'fortran_order': False, 'shape': (3,), }\n").shape,
            [3]
        );
        let scalar = header("{'descr': '<f2', 'fortran_order': False, 'shape': (), }\n");
        assert_eq!((scalar.kind, scalar.shape), (Kind::F16, Vec::new()));
        let vector = header("{'descr': '<i8', 'fortran_order': True, 'shape': (5,), }\n");
        assert_eq!((vector.kind, vector.shape), (Kind::Integer, vec![5]));
    }

    #[test]
    fn what_cannot_be_read_is_named_with_its_cure() {
        let refused = |text| read(text, 0).expect_err("it is refused");
        let turned = refused("{'descr': '>f4', 'fortran_order': False, 'shape': (3,), }");
        assert_eq!(
            turned,
            "its values are `>f4`: save them with array.astype('float32')"
        );
        let columns = refused("{'descr': '<f4', 'fortran_order': True, 'shape': (3, 4), }");
        assert!(columns.contains("numpy.ascontiguousarray"), "{columns}");
        assert!(
            refused("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (3,), }")
                .contains("records")
        );
        assert_eq!(
            refused("{'descr': '<f4', 'shape': (3,), }"),
            "its header lacks fortran_order"
        );
        assert_eq!(
            refused("{'descr': '<f4', 'fortran_order': False, 'shape': (x,), }"),
            "its shape holds `x`"
        );
    }

    #[test]
    fn the_first_bytes_tell_where_the_header_lies() {
        assert_eq!(
            text_range(b"\x93NUMPY\x01\x00\x76\x00{").expect("version 1"),
            (10, 128)
        );
        assert_eq!(
            text_range(b"\x93NUMPY\x02\x00\x74\x00\x00\x00{").expect("version 2"),
            (12, 128)
        );
        assert!(text_range(b"PK\x03\x04").is_err());
        assert!(text_range(b"\x93NUMPY\x01\x00\x76").is_err());
        assert!(
            text_range(b"\x93NUMPY\x02\x00\xff\xff\xff\xff")
                .expect_err("too long")
                .contains("10000")
        );
    }
}
