//! Tensor files: values in files that other programs read or write, namely exports, other safetensors files and NumPy
//! arrays.

mod npy;

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use safetensors::tensor::Metadata;
use serde::Deserialize;
use trainyard_model_dir::{names, read_json};
use trainyard_storage::{File, Storage, is_remote};
use trainyard_tensorflow_formats::tensor_bundle::{bf16_to_f32, f16_to_f32};
use trainyard_variable::{DynamicRows, FirstRows, Idle, Initializer};

use crate::{Error, MappedValues};

/// Extension of a file of named tensors.
const SAFETENSORS: &str = "safetensors";

/// Extension of a file with one NumPy array.
const NPY: &str = "npy";

/// Name of the file that describes an export.
const DESCRIPTION: &str = "model.json";

/// Name of the file with the graph of an export.
const GRAPH: &str = "model.onnx";

/// Longest header of a safetensors file, in bytes: the bound of the safetensors library.
const HEADER_BYTES_MAX: u64 = 100_000_000;

/// Bytes of the first read of a NumPy file. They hold a usual header.
const NPY_START_BYTES: u64 = 4096;

/// Number of values that are converted at once.
const VALUES_AT_ONCE: usize = 1 << 18;

/// Number of rows of a dynamic table that are read at once.
const ROWS_AT_ONCE: usize = 1 << 16;

/// Bytes of one read while a tensor is verified.
const VERIFY_BYTES: u64 = 1 << 20;

/// Depth of nested folders that are searched for NumPy arrays.
const DEPTH_MAX: usize = 8;

/// Stored type of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    F32,
    F64,
    F16,
    Bf16,
    /// 64-bit integers: the ids of a dynamic table.
    Integer,
}

impl Kind {
    fn bytes(self) -> usize {
        match self {
            Self::F16 | Self::Bf16 => 2,
            Self::F32 => 4,
            Self::F64 | Self::Integer => 8,
        }
    }
}

#[derive(Debug)]
struct Tensor {
    path: PathBuf,
    file: Arc<File>,
    kind: Kind,
    shape: Vec<usize>,
    /// Offset of the values in the file.
    begin: u64,
}

/// Opened tensor files: tensors by name.
#[derive(Debug)]
pub struct TensorFiles {
    path: PathBuf,
    tensors: BTreeMap<String, Tensor>,
    first_rows: BTreeMap<String, FirstRows>,
    /// CRC-32C of the bytes of tensors, by their names.
    checksums: BTreeMap<String, u32>,
    global_step: Option<u64>,
    job: Vec<String>,
}

/// The fields of the description of an export that are read.
#[derive(Debug, Deserialize)]
struct Description {
    global_step: u64,
    /// Exports of earlier releases lack the job.
    #[serde(default)]
    job: Vec<String>,
    variables: Vec<Described>,
}

#[derive(Debug, Deserialize)]
struct Described {
    name: String,
    shape: Vec<usize>,
    /// Rule of the values of ids without a row.
    others: Option<DescribedOthers>,
    /// Checksum of the values. Exports of earlier releases lack it.
    crc32c: Option<u32>,
    /// Checksum of the ids of a dynamic table.
    ids_crc32c: Option<u32>,
}

#[derive(Debug, Deserialize)]
struct DescribedOthers {
    initializer: Initializer,
    seed: u64,
    /// Shape of the variable in training. Exports of earlier releases lack it.
    shape: Option<Vec<usize>>,
}

impl TensorFiles {
    /// Opens a `.safetensors` or `.npy` file, an export, the newest export in a folder of exports, or a folder of such
    /// files. Returns nothing if the path is none of these. An array in a folder is named by its path below the folder,
    /// without the extension.
    ///
    /// # Errors
    /// A file cannot be read, or is damaged.
    pub fn open(path: &Path) -> Result<Option<Self>, Error> {
        let mut opened = Self {
            path: path.to_owned(),
            tensors: BTreeMap::new(),
            first_rows: BTreeMap::new(),
            checksums: BTreeMap::new(),
            global_step: None,
            job: Vec::new(),
        };
        if has_ending(path, SAFETENSORS) {
            opened.add_safetensors(path)?;
            opened.describe(&path.with_file_name(DESCRIPTION))?;
            return Ok(Some(opened));
        }
        if has_ending(path, NPY) {
            let name = path
                .file_stem()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            opened.add_npy(path, name)?;
            return Ok(Some(opened));
        }
        if !is_remote(path) && !path.is_dir() {
            return Ok(None);
        }
        let mut folder = path.to_owned();
        let mut within = names(&folder)?;
        if let Some(newest) = within
            .iter()
            .filter_map(|name| name.parse::<u64>().ok())
            .max()
        {
            folder = folder.join(newest.to_string());
            within = names(&folder)?;
        }
        for name in within
            .iter()
            .filter(|name| has_ending(Path::new(name), SAFETENSORS))
        {
            opened.add_safetensors(&folder.join(name))?;
        }
        if within.iter().any(|name| name == DESCRIPTION) {
            opened.describe(&folder.join(DESCRIPTION))?;
        }
        if opened.tensors.is_empty() && within.iter().any(|name| name == GRAPH) {
            let what = format!(
                "it holds {GRAPH} alone, whose values cannot be taken out again: export with --format safetensors, or with both"
            );
            return Err(Error::damaged(&folder, what));
        }
        opened.add_arrays(&folder, "", DEPTH_MAX)?;
        Ok((!opened.tensors.is_empty()).then_some(opened))
    }

    /// Adds the arrays in a folder and in the folders below it.
    fn add_arrays(&mut self, folder: &Path, prefix: &str, depth: usize) -> Result<(), Error> {
        for name in names(folder)? {
            let path = folder.join(&name);
            if let Some(stem) = name.strip_suffix(&format!(".{NPY}")) {
                self.add_npy(&path, format!("{prefix}{stem}"))?;
            } else if depth > 0 && !is_remote(&path) && path.is_dir() {
                self.add_arrays(&path, &format!("{prefix}{name}/"), depth - 1)?;
            }
        }
        Ok(())
    }

    fn add_safetensors(&mut self, path: &Path) -> Result<(), Error> {
        let file = Arc::new(
            Storage::default()
                .open(path)
                .map_err(Error::io("open", path))?,
        );
        let bytes = file.bytes().map_err(Error::io("find", path))?;
        let damaged = |what: String| Error::damaged(path, what);
        let at = |begin: u64, count: u64| {
            if begin.saturating_add(count) > bytes {
                return Err(damaged(format!(
                    "it has {bytes} bytes and ends in its header"
                )));
            }
            file.read_at(begin, count as usize)
                .map_err(Error::io("read", path))
        };
        let length = at(0, 8)?;
        let length = length
            .first_chunk()
            .map_or(0, |length| u64::from_le_bytes(*length));
        if length > HEADER_BYTES_MAX {
            return Err(damaged(format!(
                "it is no safetensors file: its header would have {length} bytes"
            )));
        }
        let header = at(8, length)?;
        let header: Metadata = serde_json::from_slice(&header)
            .map_err(|error| damaged(format!("it is no safetensors file: {error}")))?;
        for (name, tensor) in header.tensors() {
            let kind = match tensor.dtype {
                safetensors::Dtype::F32 => Kind::F32,
                safetensors::Dtype::F64 => Kind::F64,
                safetensors::Dtype::F16 => Kind::F16,
                safetensors::Dtype::BF16 => Kind::Bf16,
                safetensors::Dtype::U64 | safetensors::Dtype::I64 => Kind::Integer,
                _ => continue,
            };
            let begin = 8 + length + tensor.data_offsets.0 as u64;
            let file = Arc::clone(&file);
            let shape = tensor.shape.clone();
            self.add(
                name,
                Tensor {
                    path: path.to_owned(),
                    file,
                    kind,
                    shape,
                    begin,
                },
                bytes,
            )?;
        }
        Ok(())
    }

    fn add_npy(&mut self, path: &Path, name: String) -> Result<(), Error> {
        let file = Arc::new(
            Storage::default()
                .open(path)
                .map_err(Error::io("open", path))?,
        );
        let bytes = file.bytes().map_err(Error::io("find", path))?;
        let damaged = |what: String| Error::damaged(path, what);
        let read = |begin: u64, end: u64| {
            file.read_at(begin, (end - begin) as usize)
                .map_err(Error::io("read", path))
        };
        let start = read(0, bytes.min(NPY_START_BYTES))?;
        let (begin, end) = npy::text_range(&start).map_err(damaged)?;
        if end as u64 > bytes {
            return Err(damaged(format!(
                "it has {bytes} bytes and ends in its header"
            )));
        }
        let text = read(begin as u64, end as u64)?;
        let text =
            std::str::from_utf8(&text).map_err(|_| damaged("its header is no text".to_owned()))?;
        let npy::Header {
            kind,
            shape,
            values_begin,
        } = npy::read(text, end as u64).map_err(damaged)?;
        self.add(
            name,
            Tensor {
                path: path.to_owned(),
                file,
                kind,
                shape,
                begin: values_begin,
            },
            bytes,
        )
    }

    /// Adds a tensor of a file with `bytes` bytes.
    fn add(&mut self, name: String, tensor: Tensor, bytes: u64) -> Result<(), Error> {
        let values = tensor
            .shape
            .iter()
            .try_fold(1_u64, |all, size| all.checked_mul(*size as u64));
        let needed = values.and_then(|values| values.checked_mul(tensor.kind.bytes() as u64));
        let end = needed.and_then(|needed| needed.checked_add(tensor.begin));
        if end.is_none_or(|end| end > bytes) {
            let what = format!(
                "`{name}` of shape {:?} ends behind its {bytes} bytes",
                tensor.shape
            );
            return Err(Error::damaged(&tensor.path, what));
        }
        if let Some(before) = self.tensors.get(&name) {
            let what = format!("`{name}` is in {}, too", before.path.display());
            return Err(Error::damaged(&tensor.path, what));
        }
        drop(self.tensors.insert(name, tensor));
        Ok(())
    }

    /// Reads the description of an export, if there is one.
    fn describe(&mut self, path: &Path) -> Result<(), Error> {
        // Another program may have written a file of this name, so a file of another form is ignored.
        let Some(Ok(description)) = read_json::<Description>(path)? else {
            return Ok(());
        };
        self.global_step = Some(description.global_step);
        self.job = description.job;
        for Described {
            name,
            shape,
            others,
            crc32c,
            ids_crc32c,
        } in description.variables
        {
            let of_ids = ids_crc32c.map(|crc32c| (format!("{name}/ids"), crc32c));
            let of_values = crc32c.map(|crc32c| (name.clone(), crc32c));
            self.checksums.extend(of_values.into_iter().chain(of_ids));
            if let Some(DescribedOthers {
                initializer,
                seed,
                shape: trained,
            }) = others
            {
                let shape = trained.unwrap_or(shape);
                drop(self.first_rows.insert(
                    name.clone(),
                    FirstRows {
                        seed,
                        name,
                        shape,
                        initializer,
                    },
                ));
            }
        }
        Ok(())
    }

    /// Returns the path that was opened.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the global step of an export.
    pub fn global_step(&self) -> Option<u64> {
        self.global_step
    }

    /// Returns the job of the run that trained the values, one line per key; nothing if that is not recorded.
    pub fn job(&self) -> &[String] {
        &self.job
    }

    /// Returns the names and shapes of all tensors but integers, which are ids.
    pub fn variables(&self) -> impl Iterator<Item = (&str, &[usize])> {
        let values = self
            .tensors
            .iter()
            .filter(|(_, tensor)| tensor.kind != Kind::Integer);
        values.map(|(name, tensor)| (name.as_str(), tensor.shape.as_slice()))
    }

    /// Returns whether a variable is a dynamic table: whether `<variable>/ids` has an id for each row.
    pub fn is_dynamic(&self, variable: &str) -> bool {
        self.ids(variable).is_some()
    }

    fn ids(&self, variable: &str) -> Option<&Tensor> {
        let rows = self.tensors.get(variable)?.shape.first()?;
        let ids = self.tensors.get(&format!("{variable}/ids"))?;
        (ids.kind == Kind::Integer && ids.shape == [*rows]).then_some(ids)
    }

    /// Returns the rule of the values of ids without a row, if the export stores it.
    pub fn first_rows(&self, variable: &str) -> Option<FirstRows> {
        self.first_rows.get(variable).cloned()
    }

    /// Maps the values of a variable. Returns nothing if they are no 32-bit floating-point numbers of a local file.
    ///
    /// # Errors
    /// The file was cut, or cannot be mapped.
    pub fn mapped(&self, variable: &str) -> Result<Option<MappedValues<f32>>, Error> {
        match self.tensors.get(variable) {
            Some(tensor) if tensor.kind == Kind::F32 => tensor.mapped(),
            _ => Ok(None),
        }
    }

    /// Maps the ids of a dynamic table, as [`TensorFiles::mapped`]. Whether they ascend is not checked.
    ///
    /// # Errors
    /// The file was cut, or cannot be mapped.
    pub fn mapped_ids(&self, variable: &str) -> Result<Option<MappedValues<u64>>, Error> {
        self.ids(variable).map_or(Ok(None), Tensor::mapped)
    }

    /// Returns the names of the tensors that have a checksum.
    pub fn checked(&self) -> impl Iterator<Item = &str> {
        self.checksums.keys().map(String::as_str)
    }

    /// Reads the bytes of a tensor, and compares their checksum, if there is one.
    ///
    /// # Errors
    /// The checksum differs, or the file was cut or cannot be read.
    pub fn verify(&self, tensor: &str) -> Result<(), Error> {
        let Some(expected) = self.checksums.get(tensor) else {
            return Ok(());
        };
        let lacking = || Error::Lacking {
            path: self.path.clone(),
            tensor: tensor.to_owned(),
        };
        let found = self.tensors.get(tensor).ok_or_else(lacking)?;
        let range = found.bytes();
        let mut buffer = vec![0; VERIFY_BYTES.min(range.end - range.start) as usize];
        let mut crc32c = 0;
        for begin in range.clone().step_by(VERIFY_BYTES as usize) {
            let part = &mut buffer[..(range.end - begin).min(VERIFY_BYTES) as usize];
            let read = found.file.read_exact_at(begin, part);
            read.map_err(Error::io("read", &found.path))?;
            crc32c = crc32c::crc32c_append(crc32c, part);
        }
        if crc32c == *expected {
            return Ok(());
        }
        let what = format!("{tensor}: crc32c {crc32c:08x}, expected {expected:08x}");
        Err(Error::damaged(&found.path, what))
    }

    /// Reads `rows` of a variable into `out`.
    ///
    /// # Errors
    /// The variable is absent, or a file cannot be read.
    pub fn read_rows(
        &self,
        variable: &str,
        rows: Range<usize>,
        out: &mut [f32],
    ) -> Result<(), Error> {
        let absent = || Error::Absent {
            path: self.path.clone(),
            tensor: variable.to_owned(),
            begin: rows.start,
            end: rows.end,
        };
        let tensor = self.tensors.get(variable).ok_or_else(absent)?;
        let width: usize = tensor.shape.iter().skip(1).product();
        let has = tensor.shape.first().copied().unwrap_or(1);
        if rows.end > has || rows.len() * width != out.len() {
            return Err(absent());
        }
        tensor.read(rows.start * width, out)
    }

    /// Reads the rows of a dynamic table whose ids are in `ids`, some at a time.
    ///
    /// # Errors
    /// The files hold no such table. The iterator returns the errors of reading.
    pub fn lots<'a>(
        &'a self,
        variable: &'a str,
        ids: Range<u128>,
    ) -> Result<impl Iterator<Item = Result<DynamicRows, Error>> + use<'a>, Error> {
        let lacking = || Error::Lacking {
            path: self.path.clone(),
            tensor: variable.to_owned(),
        };
        let ids_tensor = self.ids(variable).ok_or_else(lacking)?;
        let values = self.tensors.get(variable).ok_or_else(lacking)?;
        let rows = values.shape.first().copied().unwrap_or(0);
        let mut last = None::<u64>;
        let width: usize = values.shape.iter().skip(1).product();
        Ok((0..rows).step_by(ROWS_AT_ONCE).map(move |begin| {
            let read = ids_tensor.read_integers(begin..(begin + ROWS_AT_ONCE).min(rows))?;
            for id in &read {
                if let Some(before) = last.filter(|before| before >= id) {
                    let what =
                        format!("{variable}/ids: ids must ascend, {before} stands before {id}");
                    return Err(Error::damaged(&ids_tensor.path, what));
                }
                last = Some(*id);
            }
            let place = |bound: u128| read.partition_point(|id| u128::from(*id) < bound);
            let from = place(ids.start);
            let to = place(ids.end);
            let mut out = vec![0.0; (to - from) * width];
            values.read((begin + from) * width, &mut out)?;
            let idle = vec![Idle::default(); to - from];
            Ok(DynamicRows {
                ids: read[from..to].to_vec(),
                idle,
                values: out,
                ..DynamicRows::default()
            })
        }))
    }
}

impl Tensor {
    /// Returns the place of the values in the file, which holds them: see [`TensorFiles::add`].
    fn bytes(&self) -> Range<u64> {
        let values: usize = self.shape.iter().product();
        self.begin..self.begin + (values * self.kind.bytes()) as u64
    }

    fn mapped<T: bytemuck::AnyBitPattern>(&self) -> Result<Option<MappedValues<T>>, Error> {
        if self.bytes().is_empty() {
            return Ok(None);
        }
        let map = self.file.map(self.bytes());
        let map = map.map_err(Error::io("map", &self.path))?;
        Ok(map.and_then(MappedValues::of))
    }

    /// Reads values from place `place` on, converted to `f32`.
    fn read(&self, place: usize, out: &mut [f32]) -> Result<(), Error> {
        let at = |place: usize| self.begin + place as u64 * self.kind.bytes() as u64;
        let failed = |error| Error::io("read", &self.path)(error);
        if self.kind == Kind::F32 && cfg!(target_endian = "little") {
            return self
                .file
                .read_exact_at(at(place), bytemuck::cast_slice_mut(out))
                .map_err(failed);
        }
        let mut place = place;
        for out in out.chunks_mut(VALUES_AT_ONCE) {
            let bytes = self
                .file
                .read_at(at(place), out.len() * self.kind.bytes())
                .map_err(failed)?;
            place += out.len();
            match self.kind {
                Kind::F32 => convert(&bytes, out, f32::from_le_bytes),
                Kind::F64 => convert(&bytes, out, |bytes| f64::from_le_bytes(bytes) as f32),
                Kind::F16 => convert(&bytes, out, |bytes| f16_to_f32(u16::from_le_bytes(bytes))),
                Kind::Bf16 => convert(&bytes, out, |bytes| bf16_to_f32(u16::from_le_bytes(bytes))),
                Kind::Integer => convert(&bytes, out, |bytes| i64::from_le_bytes(bytes) as f32),
            }
        }
        Ok(())
    }

    fn read_integers(&self, places: Range<usize>) -> Result<Vec<u64>, Error> {
        let begin = self.begin + places.start as u64 * 8;
        let bytes = self
            .file
            .read_at(begin, places.len() * 8)
            .map_err(Error::io("read", &self.path))?;
        Ok(bytes
            .as_chunks()
            .0
            .iter()
            .map(|id| u64::from_le_bytes(*id))
            .collect())
    }
}

fn convert<const BYTES: usize>(bytes: &[u8], out: &mut [f32], value: impl Fn([u8; BYTES]) -> f32) {
    for (out, bytes) in out.iter_mut().zip(bytes.as_chunks().0) {
        *out = value(*bytes);
    }
}

fn has_ending(path: &Path, ending: &str) -> bool {
    path.extension().is_some_and(|found| found == ending)
}

#[cfg(test)]
mod tests;
