"""`ccarena tune`: configurations drawn from a space, each trained with several seeds, compared by their validations."""
