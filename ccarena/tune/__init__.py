"""Package of `ccarena tune`: configurations drawn from a space, each trained with several seeds and compared by
validation.
"""
