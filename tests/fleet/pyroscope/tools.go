//go:build tools

// The server that tests run against: scripts/servers builds it.
package pyroscope

import _ "github.com/grafana/pyroscope/cmd/pyroscope"
