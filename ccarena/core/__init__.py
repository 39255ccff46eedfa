"""Parts that every room of the package uses: arguments, files, input data, tables, the terminal."""
