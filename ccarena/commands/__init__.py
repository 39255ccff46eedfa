"""Commands of `ccarena`, one file each: parse options, call the library, print a summary."""
