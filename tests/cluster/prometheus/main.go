// Evaluates PromQL with Prometheus' own engine and storage over scrapes that are given on stdin, and prints the answers.
//
// In:  {"scrapes": [{"at": SECONDS, "text": METRICS}], "queries": [{"expr": PROMQL, "start": S, "end": S, "step": S}]}
// Out: [{"expr": PROMQL, "series": [{"labels": {...}, "points": [[S, VALUE], ...]}]}]
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/tsdb"
)

type input struct {
	Scrapes []struct {
		At   float64 `json:"at"`
		Text string  `json:"text"`
	} `json:"scrapes"`
	Queries []query `json:"queries"`
}

type query struct {
	Expr  string  `json:"expr"`
	Start float64 `json:"start"`
	End   float64 `json:"end"`
	Step  float64 `json:"step"`
}

type answer struct {
	Expr   string   `json:"expr"`
	Series []series `json:"series"`
}

type series struct {
	Labels map[string]string `json:"labels"`
	Points [][2]float64      `json:"points"`
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	var in input
	decoder := json.NewDecoder(os.Stdin)
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&in); err != nil {
		return fmt.Errorf("stdin: %w", err)
	}
	dir, err := os.MkdirTemp("", "promql")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	options := tsdb.DefaultOptions()
	// Samples come in one go, however long they were apart.
	options.MinBlockDuration = (24 * time.Hour).Milliseconds()
	options.MaxBlockDuration = options.MinBlockDuration
	db, err := tsdb.Open(dir, nil, nil, options, tsdb.NewDBStats())
	if err != nil {
		return err
	}
	defer db.Close()
	before := map[string]labels.Labels{}
	for _, scrape := range in.Scrapes {
		if before, err = store(db, scrape.Text, milliseconds(scrape.At), before); err != nil {
			return fmt.Errorf("the scrape at %v: %w", scrape.At, err)
		}
	}
	engine := promql.NewEngine(promql.EngineOpts{
		MaxSamples: 50_000_000, Timeout: time.Minute, LookbackDelta: 5 * time.Minute,
		EnableAtModifier: true, EnableNegativeOffset: true, Parser: parser.NewParser(parser.Options{}),
	})
	answers := []answer{}
	for _, q := range in.Queries {
		found, err := evaluate(engine, db, q)
		if err != nil {
			return fmt.Errorf("%s: %w", q.Expr, err)
		}
		answers = append(answers, answer{q.Expr, found})
	}
	return json.NewEncoder(os.Stdout).Encode(answers)
}

// Gives the series of this scrape. Those of the one before that it lacks end with it, as Prometheus has it.
func store(db *tsdb.DB, text string, at int64, before map[string]labels.Labels) (map[string]labels.Labels, error) {
	appender := db.Appender(context.Background())
	parse := textparse.NewPromParser([]byte(text), labels.NewSymbolTable(), false)
	now := map[string]labels.Labels{}
	for {
		entry, err := parse.Next()
		if errors.Is(err, io.EOF) {
			for key, gone := range before {
				if _, found := now[key]; found {
					continue
				}
				if _, err := appender.Append(0, gone, at, math.Float64frombits(value.StaleNaN)); err != nil {
					return nil, err
				}
			}
			return now, appender.Commit()
		}
		if err != nil {
			return nil, err
		}
		if entry != textparse.EntrySeries {
			continue
		}
		_, _, is := parse.Series()
		var of labels.Labels
		parse.Labels(&of)
		// What Prometheus adds to what it scrapes from a pod.
		builder := labels.NewBuilder(of)
		builder.Set("job", "kubediff").Set("namespace", "kubediff").Set("pod", "kubediff-0")
		series := builder.Labels()
		now[series.String()] = series
		if _, err := appender.Append(0, series, at, is); err != nil {
			return nil, err
		}
	}
}

func evaluate(engine *promql.Engine, db *tsdb.DB, q query) ([]series, error) {
	start, end := time.UnixMilli(milliseconds(q.Start)), time.UnixMilli(milliseconds(q.End))
	step := time.Duration(q.Step * float64(time.Second))
	prepared, err := engine.NewRangeQuery(context.Background(), db, nil, q.Expr, start, end, step)
	if err != nil {
		return nil, err
	}
	defer prepared.Close()
	matrix, err := prepared.Exec(context.Background()).Matrix()
	if err != nil {
		return nil, err
	}
	found := []series{}
	for _, one := range matrix {
		points := [][2]float64{}
		for _, point := range one.Floats {
			// JSON has neither; a quantile of nothing is none.
			if !math.IsNaN(point.F) && !math.IsInf(point.F, 0) {
				points = append(points, [2]float64{float64(point.T) / 1000, point.F})
			}
		}
		if len(points) > 0 {
			found = append(found, series{one.Metric.Map(), points})
		}
	}
	return found, nil
}

func milliseconds(seconds float64) int64 { return int64(seconds * 1000) }
