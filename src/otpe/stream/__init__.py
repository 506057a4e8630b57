"""Learning from endless streams, one time step at a time.

learner.py    `otpe.StreamLearner`
programs.py   what it runs on the device
inputs.py     what comes from a stream, looked at first
described.py  networks and optimizers in words, for saved learners
"""
