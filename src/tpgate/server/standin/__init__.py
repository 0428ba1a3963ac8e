"""A scripted server that speaks SGLang's protocol and whose truth is known exactly: no model, no GPU, no SGLang.

It decodes on an absolute schedule computed from its options, so that the true latency and throughput do not move with
the load of the host, and it records how late it was itself.
"""
