package config

import "time"

// The engines that the settings know.
const (
	engineAuto     = "auto"
	engineLlamaCpp = "llamacpp"
	engineEmbedded = "embedded"
)

// Keys that the code below treats by name.
const (
	keyFile         = "config"
	keyStateDir     = "state_dir"
	keyRunDir       = "run_dir"
	keyHost         = "host"
	keyCtx          = "ctx"
	keyParallel     = "parallel"
	keyEngine       = "engine"
	keyServedName   = "served_model_name"
	keyAPIKey       = "api_key"
	keyAPIKeyFile   = "api_key_file"
	keyEngineArgs   = "engine_args"
	keyLlamaCppArgs = "engines.llamacpp.args"
	keyModels       = "models"
)

// settings is the declared table, in the order in which the settings are documented. A row's comment, and its why for the
// user, say why its default is not smaller and not larger.
func settings() []setting[Config] {
	var rows []setting[Config]
	rows = append(rows, addressSettings()...)
	rows = append(rows, modelSettings()...)
	rows = append(rows, limitSettings()...)
	rows = append(rows, engineSettings()...)
	rows = append(rows, folderSettings()...)
	return append(rows, logSettings()...)
}

func addressSettings() []setting[Config] {
	return []setting[Config]{
		row(about{
			key: keyHost, flag: "host", env: "STOKER_HOST", def: "127.0.0.1",
			help: "The address to listen on. Beyond loopback an API key is needed.",
			why:  "Only this machine can reach it. Anything wider is a decision for the user, with a key.",
		}, host(), func(c *Config) *string { return &c.Host }),
		row(about{
			key: "port", flag: "port", env: "STOKER_PORT", def: "1919",
			help: "The port to listen on; 0 takes any free one.",
			why:  "Fixed, so that clients can be set up once; above 1023, so that it needs no rights; used by no well-known service.",
		}, number(0, 65535), func(c *Config) *int { return &c.Port }),
		row(about{
			key: keyAPIKey, env: "STOKER_API_KEY", off: "no key", secret: true,
			help: "The key that clients must send. There is no flag for it: arguments are visible to every user of the machine.",
			why:  "None: on loopback the users of this machine are trusted.",
		}, keyText(), func(c *Config) *Secret { return &c.APIKey }),
		row(about{
			key: keyAPIKeyFile, flag: "api-key-file", env: "STOKER_API_KEY_FILE", off: "no key",
			help: "A file that holds the key, as an alternative to api_key. Whichever of the two comes from the higher source counts.",
			why:  "None, as for api_key.",
		}, path("a file that holds only the key"), func(c *Config) *string { return &c.APIKeyFile }),
	}
}

func modelSettings() []setting[Config] {
	return []setting[Config]{
		row(about{
			key: keyServedName, flag: "served-model-name", env: "STOKER_SERVED_MODEL_NAME", off: "the name of the model itself",
			help: "The name clients use for the model, if exactly one is served.",
			why:  "None: the model's own name, which is that of its file or repository.",
		}, servedName(), func(c *Config) *string { return &c.ServedModelName }),
		row(about{
			key: keyCtx, flag: "ctx", env: "STOKER_CTX", def: "auto",
			help: "The tokens one request can use, prompt and answer together. It is an upper bound: never raised, and refused if it does not fit.",
			why:  "What the model was trained for, lowered to what fits this machine. A fixed number is too small for one and too large for the next.",
		}, tokens(), func(c *Config) *int { return &c.Ctx }),
		row(about{
			key: keyParallel, flag: "parallel", env: "STOKER_PARALLEL", def: "1",
			help: "How many requests of one model run at once, each with a whole window of its own.",
			why: "Not less, by nature; not more, because each costs the memory of one more window and slows the others, so that the window " +
				"of auto would shrink. Further requests wait in the queue.",
		}, number(1, 256), func(c *Config) *int { return &c.Parallel }),
		list(about{
			key: keyModels, off: "no models",
			help: "The models to serve if the command line names none, and the settings of those it names.",
			why:  "None: nothing is served that nobody asked for.",
		}, func(c *Config) *[]Model { return &c.Models }),
	}
}

func limitSettings() []setting[Config] {
	return []setting[Config]{
		row(about{
			key: "queue_limit", env: "STOKER_QUEUE_LIMIT", def: "64", off: "no queue: what cannot run at once is refused",
			help: "How many requests of one model may wait. More are refused with status 429. A queue without a bound is not to be had.",
			why: "Not smaller: a few coding agents with sub-agents send dozens at once. Not larger: each holds its body in memory, and " +
				"the last in line would wait longer than clients do.",
		}, number(0, 10000), func(c *Config) *int { return &c.QueueLimit }),
		row(about{
			key: "queue_wait", env: "STOKER_QUEUE_WAIT", def: "5m", off: "a request waits as long as its client stays",
			help: "How long a request may wait for its turn.",
			why: "Not shorter: on a processor one long answer ahead takes minutes. Not longer: the official client libraries give up after ten " +
				"minutes, and there must be time left to answer.",
		}, duration(time.Millisecond, day), func(c *Config) *time.Duration { return &c.QueueWait }),
		row(about{
			key: "max_body_bytes", env: "STOKER_MAX_BODY_BYTES", def: "64MiB",
			help: "The largest request body.",
			why: "Not smaller: a million tokens of text are 5 MiB, and images ride along in base64. Not larger: a body is held in memory, once for " +
				"each request that waits.",
		}, size(1<<10, 4<<30), func(c *Config) *int64 { return &c.MaxBodyBytes }),
		row(about{
			key: "heartbeat", env: "STOKER_HEARTBEAT", def: "5s", off: "no heartbeats",
			help: "The longest silence on a stream while the model reads the prompt or is loaded.",
			why: "Not shorter: it is noise that every client has to read. Not longer: proxies and agents with short idle limits re-send the " +
				"whole prompt when they hear nothing.",
		}, duration(time.Millisecond, time.Hour), func(c *Config) *time.Duration { return &c.Heartbeat }),
		row(about{
			key: "load_stall", env: "STOKER_LOAD_STALL", def: "5m", off: "a load may be silent for ever",
			help: "A load that shows no progress for so long is ended. A slow one that moves on is not.",
			why: "Not shorter: an engine that reads a large file from a slow disk may be silent for minutes. Not longer: nobody waits longer for " +
				"something that hangs.",
		}, duration(time.Millisecond, day), func(c *Config) *time.Duration { return &c.LoadStall }),
	}
}

const day = 24 * time.Hour

func engineSettings() []setting[Config] {
	return []setting[Config]{
		row(about{
			key: keyEngine, flag: "engine", env: "STOKER_ENGINE", def: engineAuto,
			help: "The engine that runs the models.",
			why:  "The best one found for the model and this machine; `stoker explain MODEL` says which, and why.",
		}, oneOf(engineAuto, engineEmbedded, engineLlamaCpp), func(c *Config) *string { return &c.Engine }),
		options(about{
			key: keyEngineArgs, flag: "engine-arg", off: "no options", notInFile: true,
			help: "One option for the engine, as key=value; may be given several times, the last of two equal keys counts. key= takes the key out.",
			why:  "None: stoker sets what it promises.",
		}, func(c *Config) *[]Option { return &c.engineArgs }),
		row(about{
			key: "engines.embedded.mode", env: "STOKER_EMBEDDED_MODE", def: "exact",
			help: "How stoker's own engine computes: exact keeps activations in float32, fast rounds them to 8 bits.",
			why:  "Exact answers as the model's published weights do, on every machine the same, and is fast enough to be the default.",
		}, oneOf("exact", "fast"), func(c *Config) *string { return &c.Embedded.Mode }),
		row(about{
			key: "engines.embedded.kernel", env: "STOKER_EMBEDDED_KERNEL", def: "auto",
			help: "The set of kernels of stoker's own engine; `stoker doctor` lists them. All give the same bits.",
			why:  "The best that this processor runs.",
		}, oneOf("auto", "avx2", "generic"), func(c *Config) *string { return &c.Embedded.Kernel }),
		row(about{
			key: "engines.embedded.threads", env: "STOKER_EMBEDDED_THREADS", def: "0",
			help: "The threads that stoker's own engine computes with; 0 takes one for each processor.",
			why:  "Fewer leave processors idle; more would wait for each other.",
		}, number(0, 1024), func(c *Config) *int { return &c.Embedded.Threads }),
		row(about{
			key: "engines.llamacpp.path", env: "STOKER_LLAMACPP_PATH",
			help: "The llama-server to use.",
			why:  "None: stoker's own folder, DATA_DIR/engines/llamacpp, is searched, then PATH.",
		}, path("a llama-server"), func(c *Config) *string { return &c.LlamaCpp.Path }),
		options(about{
			key: keyLlamaCppArgs, off: "no options",
			help: "Options for every llama-server, by their long names without dashes. A switch takes true.",
			why:  "None: stoker sets what it promises.",
		}, func(c *Config) *[]Option { return &c.LlamaCpp.Args }),
	}
}

func folderSettings() []setting[Config] {
	return []setting[Config]{
		row(about{
			key: keyFile, flag: "config", env: "STOKER_CONFIG", notInFile: true, off: "no file is read",
			def: configFolder.doc("/config.yaml"), computed: defaultConfigFile,
			help: "The config file. The one of the default place need not exist; any other must.",
			why:  "Where the system expects it.",
		}, path("a YAML file"), func(c *Config) *string { return &c.File }),
		row(about{
			key: keyStateDir, flag: "state-dir", env: "STOKER_STATE_DIR", def: stateFolder.doc("") + "/state", computed: defaultStateDir,
			help: "The folder of a running server: its lock and where it can be reached. One server per folder.",
			why:  "Where the system expects it.",
		}, path("a folder"), func(c *Config) *string { return &c.StateDir }),
		row(about{
			key: "data_dir", flag: "data-dir", env: "STOKER_DATA_DIR", def: dataFolder.doc(""), computed: defaultDataDir,
			help: "The folder of what stoker keeps: DATA_DIR/models and DATA_DIR/engines.",
			why:  "Where the system expects it.",
		}, path("a folder"), func(c *Config) *string { return &c.DataDir }),
		row(about{
			key: "cache_dir", env: "STOKER_CACHE_DIR", def: cacheFolder.doc(""), computed: defaultCacheDir,
			help: "The folder of what can be found out again, such as what an engine can do.",
			why:  "Where the system expects it.",
		}, path("a folder"), func(c *Config) *string { return &c.CacheDir }),
		row(about{
			key: keyRunDir, env: "STOKER_RUN_DIR", def: "$XDG_RUNTIME_DIR/stoker or /tmp/stoker-UID; on macOS /tmp/stoker-UID", computed: defaultRunDir,
			help: "The folder of sockets. Its path may have 63 bytes, since a socket's path is limited by the system.",
			why:  "Short, private to the user, and emptied by the system.",
		}, path("a folder"), func(c *Config) *string { return &c.RunDir }),
	}
}

func logSettings() []setting[Config] {
	return []setting[Config]{
		row(about{
			key: "log_level", flag: "log-level", env: "STOKER_LOG_LEVEL", def: "info",
			help: "The least important log lines to write. Prompts and answers are written at no level.",
			why:  "Not less: starts, ends and failures are what one looks for later. Not more: debug has lines for each request.",
		}, logLevel(), levelField),
		row(about{
			key: "log_format", env: "STOKER_LOG_FORMAT", def: "text",
			help: "How log lines are written.",
			why:  "People read the log first; json is for collectors.",
		}, oneOf("text", "json"), func(c *Config) *string { return &c.LogFormat }),
	}
}

// modelFields are the keys of one entry of models. Those that Config has as well take their default from there.
func modelFields() []setting[Model] {
	return []setting[Model]{
		row(about{
			key: "name", help: "The served name: what clients use and every answer carries.",
		}, servedName(), func(m *Model) *string { return &m.Name }),
		row(about{
			key: "path", help: "The model file or folder. Without it, the one called like the model in DATA_DIR/models.",
		}, path("a model file or folder"), func(m *Model) *string { return &m.Path }),
		words(about{
			key: "aliases", off: "no aliases", help: "Further names that reach the model. * stands for any characters, as in claude-*.",
		}, alias(), func(m *Model) *[]string { return &m.Aliases }),
		row(about{key: keyCtx, def: "auto", help: "As ctx above, for this model."}, tokens(), func(m *Model) *int { return &m.Ctx }),
		row(about{key: keyParallel, def: "1", help: "As parallel above, for this model."}, number(1, 256), func(m *Model) *int { return &m.Parallel }),
		row(about{
			key: keyEngine, def: engineAuto, help: "As engine above, for this model.",
		}, oneOf(engineAuto, engineEmbedded, engineLlamaCpp), func(m *Model) *string { return &m.Engine }),
		options(about{
			key: keyEngineArgs, off: "no options of its own", help: "Options for the engine of this model, over those of engines.",
		}, func(m *Model) *[]Option { return &m.EngineArgs }),
	}
}
