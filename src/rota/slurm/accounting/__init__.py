"""Accounts, shares and use.

sacctmgr, sacctmgr_order, sacctmgr_show, sacctmgr_change    accounts, users and QOS
sacctmgr_fields                  every field that may be named
sacctmgr_documents               the same as JSON
sreport, sreport_tables, sshare  use, and shares in it
"""
