//! Table of codes: a stable name, an exit code and a title for each kind of message.

/// One kind of message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Code {
    /// Stable name, for example `E1001`.
    pub name: &'static str,
    /// Exit code of a program that ends with this message (sysexits).
    pub exit: u8,
    /// Title of the code.
    pub title: &'static str,
}

macro_rules! codes {
    ($($name:ident $exit:literal $title:literal;)*) => {
        impl Code {
            $(#[doc = $title] pub const $name: Code = Code { name: stringify!($name), exit: $exit, title: $title };)*
        }
        /// Every code, in order.
        pub const CODES: &[Code] = &[$(Code::$name),*];
    };
}

codes! {
    E1000 64 "command line";
    E1001 78 "unknown key";
    E1002 78 "value of the wrong type or out of range";
    E1003 78 "file is not valid TOML or JSON";
    E1004 78 "task is not in the cluster";
    E1005 78 "missing key";
    E1006 78 "keys that exclude or need each other";
    E1007 78 "cluster is not valid";
    E1101 78 "unknown name of a kind";
    E1201 66 "file or folder does not exist";
    E1202 77 "no permission";
    E2001 73 "cannot listen";
    E2002 69 "own address cannot be looked up";
    E2003 69 "peer unreachable";
    E2006 76 "peer belongs to another cluster";
    E2007 76 "peer speaks another version or runs another job";
    E2008 75 "task is served, or model_dir used, by another process";
    E2009 75 "fenced by a newer chief";
    E2010 75 "the job has failed, and may be started again";
    E3001 65 "checkpoint is damaged";
    E3002 65 "checkpoint does not fit the model";
    E3003 74 "checkpoint cannot be written";
    E3004 66 "no checkpoint";
    E3006 74 "not enough space";
    E3007 74 "log cannot be written";
    E3008 65 "log is damaged or of another job";
    E3009 73 "task may not hold as much memory";
    E3010 73 "task may not have as many open files";
    E4001 65 "input has no records";
    E4002 66 "input file is missing or cannot be read";
    E4003 65 "column is not in the input";
    E4004 65 "unreadable records";
    E4005 65 "records are not what the job expects";
    E5001 65 "loss or gradient is not finite";
    E5002 75 "too many batches rejected: quarantined";
    E5003 65 "code of the model has failed";
    E6001 65 "model cannot be exported in this format";
    E7001 78 "certificate, key or token cannot be used";
    E7002 78 "address that other hosts reach is not protected";
    E7003 77 "caller may not do this";
    E9001 70 "fault in this program";
    E9002 74 "input or output failed";
    E9003 143 "drain did not finish in time";
}
