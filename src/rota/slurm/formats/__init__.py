"""How answers are laid out.

layout, repeating                tables; the same one again and again
documents, account_documents, long_documents    JSON and YAML as slurmrestd writes them
"""
