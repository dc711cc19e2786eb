//! A simulated CUDA driver, built as `libcuda.so.1`.
