"""The full agent of `make demo`: research over a folder of documents with a real language model, killed twice, finished once.

`agent` is the part to read: the workflow and its steps. `library` holds the documents, `model` calls the language model,
`local_model` serves a small one on loopback, `conductor` kills the worker and tells the story. Run it from a clone with
`python -m examples.research`.
"""
