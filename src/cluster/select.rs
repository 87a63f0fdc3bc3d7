//! Select.
