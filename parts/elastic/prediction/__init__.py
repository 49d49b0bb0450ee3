"""When an elastic job ends if nothing more is submitted, sooner than by playing the pool forward."""
