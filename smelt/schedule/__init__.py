"""The default schedule of a region.

Takes a kernel region and a device profile; gives a schedule, a tuple of actions of `smelt.kernel`. Always holds: the
schedule is legal for the region on that device, is found without timing anything, and is the same every time.
"""
