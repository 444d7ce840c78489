"""Which accounts may take more.

quota            caps and quotas during a pass, borrowing and reclaim
quota_rules      what each limit counts
licenses         what the site owns a number of and no node does
least            what a job holds at the least when it starts
refusals         what a submit is refused for
"""
