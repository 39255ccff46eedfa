"""Parts that every room of the package uses: arguments, files, data of outside, tables, the terminal."""
