"""Kubernetes as an engine: each attempt is one bare pod that is never started again.

A Job of batch/v1 makes its pod anew when the node is lost or the pod is deleted, and its retry
counter does not prevent that. It would be a second start of one attempt, which only the controller
may decide on. So attempts are pods with ``restartPolicy: Never`` and nothing above them.

    settings    what ``[engines.NAME]`` says, checked
    answers     from an answer of the API server to one of the four errors
    client      the few requests that the driver makes, each bounded in time
    streams     programs beside that of a pod, and its ports
    mirror      all pods of ours, as a list and a watch keep them
    script      what runs inside a pod: folder, umask, exact environment, then the command
    objects     the pod and the secret of an attempt
    states      from a pod to what became of its attempt
    machines    from nodes and the pods of others to what there is for us
    driver      the driver
    entry       from the settings to the driver
"""
