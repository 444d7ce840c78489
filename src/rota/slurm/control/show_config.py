"""``scontrol show config``: what a site would read of its slurm.conf.

Most of it is what Slurm has by default. Clients read a few lines, those with an ``@`` here, whose
values come from the server; the others are there because the listing has always had them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.core.facts.indices import MAX_ELEMENTS
from rota.slurm.records.gather import MIN_JOB_AGE_S

if TYPE_CHECKING:
    from rota.core.cluster import Cluster
    from rota.slurm.words.amounts import Moments

_LINES = """\
AccountingStorageBackupHost=(null)
AccountingStorageEnforce=associations,limits,qos
AccountingStorageHost=localhost
AccountingStorageExternalHost=(null)
AccountingStorageParameters=(null)
AccountingStoragePort=0
AccountingStorageTRES=@
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageUser=N/A
AccountingStoreFlags=job_comment
AcctGatherEnergyType=acct_gather_energy/none
AcctGatherFilesystemType=acct_gather_filesystem/none
AcctGatherInterconnectType=acct_gather_interconnect/none
AcctGatherNodeFreq=0 sec
AcctGatherProfileType=acct_gather_profile/none
AllowSpecResourcesUsage=No
AuthAltTypes=(null)
AuthAltParameters=(null)
AuthInfo=(null)
AuthType=auth/none
BatchStartTimeout=10 sec
BcastExclude=/lib,/usr/lib,/lib64,/usr/lib64
BcastParameters=(null)
BOOT_TIME=@
BurstBufferType=(null)
CliFilterPlugins=(null)
ClusterName=@
CommunicationParameters=(null)
CompleteWait=0 sec
CoreSpecPlugin=core_spec/none
CpuFreqDef=Unknown
CpuFreqGovernors=OnDemand,Performance,UserSpace
CredType=cred/none
DebugFlags=(null)
DefMemPerNode=UNLIMITED
DependencyParameters=(null)
DisableRootJobs=No
EioTimeout=60
EnforcePartLimits=NO
Epilog=(null)
EpilogMsgTime=2000 usec
EpilogSlurmctld=(null)
ExtSensorsType=ext_sensors/none
ExtSensorsFreq=0 sec
FairShareDampeningFactor=1
FederationParameters=(null)
FirstJobId=1
GetEnvTimeout=2 sec
GresTypes=@
GpuFreqDef=high,memory=high
GroupUpdateForce=1
GroupUpdateTime=600 sec
HASH_VAL=Match
HealthCheckInterval=0 sec
HealthCheckNodeState=ANY
HealthCheckProgram=(null)
InactiveLimit=0 sec
InteractiveStepOptions=--interactive --preserve-env --pty $SHELL
JobAcctGatherFrequency=30
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherParams=(null)
JobCompHost=localhost
JobCompLoc=(null)
JobCompPort=0
JobCompType=jobcomp/none
JobCompUser=root
JobContainerType=job_container/none
JobCredentialPrivateKey=(null)
JobCredentialPublicCertificate=(null)
JobDefaults=(null)
JobFileAppend=0
JobRequeue=1
JobSubmitPlugins=(null)
KillOnBadExit=0
KillWait=30 sec
LaunchParameters=(null)
LaunchType=launch/slurm
Licenses=(null)
LogTimeFormat=iso8601_ms
MailDomain=(null)
MailProg=(null)
MaxArraySize=@
MaxDBDMsgs=0
MaxJobCount=1000000
MaxJobId=2147483647
MaxMemPerNode=UNLIMITED
MaxNodeCount=@
MaxStepCount=40000
MaxTasksPerNode=512
MCSPlugin=mcs/none
MCSParameters=(null)
MessageTimeout=10 sec
MinJobAge=@
MpiDefault=none
MpiParams=(null)
MULTIPLE_SLURMD=No
NEXT_JOB_ID=@
NodeFeaturesPlugins=(null)
OverTimeLimit=0 min
PluginDir=(null)
PlugStackConfig=(null)
PowerParameters=(null)
PowerPlugin=
PreemptMode=REQUEUE
PreemptType=preempt/partition_prio
PreemptExemptTime=00:00:00
PrEpParameters=(null)
PrEpPlugins=prep/script
PriorityParameters=(null)
PrioritySiteFactorParameters=(null)
PrioritySiteFactorPlugin=(null)
PriorityDecayHalfLife=7-00:00:00
PriorityCalcPeriod=00:05:00
PriorityFavorSmall=No
PriorityFlags=
PriorityMaxAge=7-00:00:00
PriorityUsageResetPeriod=NONE
PriorityType=priority/multifactor
PriorityWeightAge=0
PriorityWeightAssoc=0
PriorityWeightFairShare=0
PriorityWeightJobSize=0
PriorityWeightPartition=0
PriorityWeightQOS=0
PriorityWeightTRES=(null)
PrivateData=none
ProctrackType=proctrack/cgroup
Prolog=(null)
PrologEpilogTimeout=65534
PrologSlurmctld=(null)
PrologFlags=Alloc,Contain
PropagatePrioProcess=0
PropagateResourceLimits=ALL
PropagateResourceLimitsExcept=(null)
RebootProgram=(null)
ReconfigFlags=(null)
RequeueExit=(null)
RequeueExitHold=(null)
ResumeFailProgram=(null)
ResumeProgram=(null)
ResumeRate=300 nodes/min
ResumeTimeout=60 sec
ResvEpilog=(null)
ResvOverRun=0 min
ResvProlog=(null)
ReturnToService=1
RoutePlugin=route/default
SchedulerParameters=(null)
SchedulerTimeSlice=30 sec
SchedulerType=sched/backfill
ScronParameters=(null)
SelectType=select/cons_tres
SelectTypeParameters=CR_CORE_MEMORY
SlurmUser=root(0)
SlurmctldAddr=(null)
SlurmctldDebug=info
SlurmctldHost[0]=@
SlurmctldLogFile=(null)
SlurmctldPort=@
SlurmctldSyslogDebug=(null)
SlurmctldPrimaryOffProg=(null)
SlurmctldPrimaryOnProg=(null)
SlurmctldTimeout=60 sec
SlurmctldParameters=(null)
SlurmdDebug=info
SlurmdLogFile=(null)
SlurmdParameters=(null)
SlurmdPidFile=(null)
SlurmdPort=6818
SlurmdSpoolDir=(null)
SlurmdSyslogDebug=(null)
SlurmdTimeout=60 sec
SlurmdUser=root(0)
SlurmSchedLogFile=(null)
SlurmSchedLogLevel=0
SlurmctldPidFile=(null)
SlurmctldPlugstack=(null)
SLURM_CONF=(null)
SLURM_VERSION=22.05.8
SrunEpilog=(null)
SrunPortRange=0-0
SrunProlog=(null)
StateSaveLocation=(null)
SuspendExcNodes=(null)
SuspendExcParts=(null)
SuspendProgram=(null)
SuspendRate=60 nodes/min
SuspendTime=INFINITE
SuspendTimeout=30 sec
SwitchParameters=(null)
SwitchType=switch/none
TaskEpilog=(null)
TaskPlugin=task/affinity
TaskPluginParam=(null type)
TaskProlog=(null)
TCPTimeout=2 sec
TmpFS=/tmp
TopologyParam=(null)
TopologyPlugin=topology/none
TrackWCKey=No
TreeWidth=50
UsePam=No
UnkillableStepProgram=(null)
UnkillableStepTimeout=30 sec
VSizeFactor=0 percent
WaitTime=0 sec
X11Parameters=(null)
"""
_CGROUP = """\
AllowedKmemSpace=(null)
AllowedRAMSpace=100.0%
AllowedSwapSpace=0.0%
CgroupAutomount=no
CgroupMountpoint=/sys/fs/cgroup
CgroupPlugin=(null)
ConstrainCores=no
ConstrainDevices=no
ConstrainKmemSpace=no
ConstrainRAMSpace=yes
ConstrainSwapSpace=no
IgnoreSystemd=no
IgnoreSystemdOnFailure=no
MaxKmemPercent=100.0%
MaxRAMPercent=100.0%
MaxSwapPercent=100.0%
MemorySwappiness=(null)
MinKmemSpace=30 MB
MinRAMSpace=30 MB
"""


def config_text(cluster: Cluster, name: str, host: str, started_s: float, moments: Moments) -> str:
    """The whole listing, with the line about the controller at its end."""
    own = _own_values(cluster, name, host, started_s, moments)
    lines = [f"Configuration data as of {moments.text(moments.now_s)}"]
    lines += [_line(entry, own) for entry in _LINES.splitlines()]
    lines += ["", "Cgroup Support Configuration:"]
    lines += [_line(entry, own) for entry in _CGROUP.splitlines()]
    return "\n".join([*lines, "", f"Slurmctld(primary) at {host} is UP", ""])


def _line(entry: str, own: dict[str, str]) -> str:
    key, _, value = entry.partition("=")
    shown = own[key] if value == "@" else value
    return f"{key:<23} = {shown}"


def _own_values(
    cluster: Cluster, name: str, host: str, started_s: float, moments: Moments
) -> dict[str, str]:
    kinds = sorted({device.kind for node in cluster.nodes.values() for device in node.spec.devices})
    gres = "".join(f",gres/{kind}" for kind in kinds)
    return {
        "AccountingStorageTRES": f"cpu,mem,energy,node,billing,fs/disk,vmem,pages{gres}",
        "BOOT_TIME": moments.text(started_s),
        "ClusterName": name,
        "GresTypes": ",".join(kinds) or "(null)",
        "MaxArraySize": str(MAX_ELEMENTS + 1),
        "MaxNodeCount": str(len(cluster.nodes)),
        "MinJobAge": f"{MIN_JOB_AGE_S} sec",
        "NEXT_JOB_ID": str(cluster.ids.next),
        "SlurmctldHost[0]": f"{host}({host})",
        "SlurmctldPort": "6817",
    }
