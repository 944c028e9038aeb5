"""What every room needs: whole files, JSON with a digest, 'did you mean', addressed generators, a progress bar.

Import from the modules themselves: the dial, which knows no torch, uses two of them.
"""
