"""The OpenAPI document.

document, examples               what is in it
page                             the page that people read
"""
