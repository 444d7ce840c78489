"""From the body of a request to what the controller takes.

requests, gang_requests, health_requests, request_fields    what is sent about jobs
queue_requests, site_requests, pilot_requests, vdc_requests    and about the site
executor_requests                what a job asks for in the words of Kubernetes or Slurm
mib                              amounts under names that say their unit
checks, slots, placing, roles    whether it can be so, and what it means
submission, repeated_submits     a job as the controller takes it, also many alike
"""
