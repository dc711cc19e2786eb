//! `libvshare.so`: the CUDA interposer.
