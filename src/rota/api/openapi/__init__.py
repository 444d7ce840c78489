"""The OpenAPI document.

document, examples               what is in it
glossary                         what its properties mean
older                            what has a newer name
page                             the page that people read
"""
