"""Every field that ``sacctmgr`` knows: it takes each of them in each table, and leaves it empty
where the table has nothing of the kind."""

from __future__ import annotations

from rota.slurm.formats.layout import TableColumn

#: Heading (a dot stands for a blank), width, and the further names of a field.
_FIELDS = """
%.Allocated 11
#.Allowed 10 CountAllowed
#.Used 10 CountUsed
Account 10
Action 20
ActionRaw 10
Actor 10
Admin 9 AdminLevel
Cluster 10
Class 9 Classification
Cluster.Nodes 20
ControlHost 15
ControlPort 12
Coord.Accounts 20 Coordinator Coordinators
CPU.Cnt 7 CPUCount
Def.Acct 10 DefaultAccount
Def.QOS 9 DefaultQOS
Def.WCKey 10 DefaultWCKey
Descr 20 Description
Duration 13
Event 7
EventRaw 8
Features 20
FedState 12
FedStateRaw 11
Federation 10
Flags 20
GraceTime 10
GrpCPUMins 11
GrpCPURunMins 13
GrpCPUs 8
GrpJobs 7
GrpJobsAccrue 13
GrpMem 7 GrpMemory
GrpNodes 8
GrpSubmit 9 GrpSubmitJobs
GrpTRES 13
GrpTRESMins 13
GrpTRESRunMin 13 GrpTRESRunMins
GrpWall 11
ID 6
Info 20
LFT 6
LimitFactor 11
MaxCPUMins 11 MaxCPUMinsPerJob
MaxCPURunMinsPU 15 MaxCPURunMins MaxCPURunMinsPerUser
MaxCPUs 8 MaxCPUsPerJob
MaxCPUsPU 9 MaxCPUsPerUser
MaxJobs 7
MaxJobsAccrue 13
MaxJobsAccruePA 15 MaxJobsAccruePerAccount
MaxJobsAccruePU 15 MaxJobsAccruePerUser
MaxJobsPA 9 MaxJobsPerAccount
MaxJobsPU 9 MaxJobsPerUser
MaxNodes 8 MaxNodesPerJob
MaxNodesPU 10 MaxNodesPerUser
MaxSubmit 9 MaxSubmitJobs
MaxSubmitPA 11 MaxSubmitJobsPA MaxSubmitJobsPerAccount
MaxSubmitPU 11 MaxSubmitJobsPU MaxSubmitJobsPerUser
MaxTRES 13 MaxTRESPerJob
MaxTRESMins 13 MaxTRESMinsPerJob
MaxTRESPA 13 MaxTRESPerAccount
MaxTRESPerNode 14
MaxTRESPU 13 MaxTRESPerUser
MaxTRESRunMinsP 15 MaxTRESRunMinsPA MaxTRESRunMinsPU MaxTRESRunMinsPerAccount MaxTRESRunMinsPerUser
MaxWall 11 MaxWallDurationPerJob
MinCPUs 8 MinCPUsPerJob
MinPrioThres 12 MinPrioThreshold
MinTRES 13 MinTRESPerJob
Name 10
NodeCount 9
NodeInx 9
NodeName 15 NodeNames
Org 20 Organization
ParentID 8
ParentName 10
Partition 10
PluginIDSelect 14
Preempt 10
PreemptExemptTime 19
PreemptMode 11
Priority 10
Problem 40
QOS 20 QOSLevel
QOS_RAW 10 QOSRAW QOSRawLevel
Reason 30
RGT 6
RPC 5
Server 10
ServerType 10
Share 9 FairShare
State 6
Time 19 TimeStamp
TimeEligible 19
TimeEnd 19
TimeStart 19
TimeSubmit 19
TRES 20
Type 8
UnusedWall 10
UsageFactor 11
UsageThres 10 UsageThreshold
User 10
WCKey 10
WCKeys 20
Where 20
"""


def key_of(column: TableColumn) -> str:
    """What names a column: its heading in small letters, without blanks and signs."""
    return column.name.lower().replace(" ", "").lstrip("%#")


def by_key(columns: list[TableColumn]) -> dict[str, TableColumn]:
    """The columns of a table by name in small letters, and what else may be named in it."""
    found = {key_of(column): column for column in columns}
    found |= {key: found[heading] for key, heading in _OTHER.items() if heading in found}
    return found | {key: column for key, column in _ELSEWHERE.items() if key not in found}


def _tables() -> tuple[dict[str, str], dict[str, TableColumn]]:
    other: dict[str, str] = {}
    columns: dict[str, TableColumn] = {}
    for line in _FIELDS.strip().splitlines():
        heading, width, *names = line.split()
        column = TableColumn(heading.replace(".", " "), int(width), lambda _: "")
        plain = key_of(column)
        other |= {name.lower(): plain for name in names}
        columns |= {key.lower(): column for key in (plain, *names)}
    return other, columns


#: Further names -> the one that stands in the heading; every field as an empty column.
_OTHER, _ELSEWHERE = _tables()
