"""The arithmetic, written once: headers read by C compilers and by NVRTC, loops in cpu/ and cuda/."""
