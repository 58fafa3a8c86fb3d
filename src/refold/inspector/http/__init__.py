"""Requests and answers of the inspector: who may come in, the files of the page, the shape of answers."""
