"""The OpenAPI document.

document, examples               what is in it
glossary                         what its properties mean
page                             the page that people read
"""
