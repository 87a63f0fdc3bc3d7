module kubediff.example/tests/cluster/monitoring-crds

go 1.26.0

// Only its files are used: nothing of it is compiled.
require github.com/prometheus-operator/prometheus-operator v0.94.1
