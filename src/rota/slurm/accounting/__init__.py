"""Accounts, shares and use.

sacctmgr, sacctmgr_order, sacctmgr_show, sacctmgr_change    accounts, users and QOS
sreport, sshare                  use, and shares in it
"""
