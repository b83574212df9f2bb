import sys

sys.dont_write_bytecode = False
"""What is compiled is kept, whatever the environment says, in folders that git ignores: else each worker compiles all
tests and hypothesis anew, which takes it six seconds. It stands here because nothing of the tests is imported before.
"""
