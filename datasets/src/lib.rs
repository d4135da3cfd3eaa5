//! The row schema of the dataset and its readers and writers.
