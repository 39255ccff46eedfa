"""The commands of `ccarena`, one file each: options in, a call, a summary out."""
