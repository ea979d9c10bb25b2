//! Checks what the compiler cannot: floors, absences, captions and lengths.
