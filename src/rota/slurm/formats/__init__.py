"""How answers are laid out.

layout, repeating                tables; the same one again and again
documents, account_documents     JSON and YAML as slurmrestd writes them
site_documents, long_documents   of the site; of very many jobs
later, shown_document            the shape of later versions, and which one is asked for
"""
