package config

// Flag is a setting as the command line knows it. None is a switch: each takes a value, so none can swallow or miss one.
type Flag struct {
	// Name is without dashes.
	Name string
	// Help is a sentence or two. Type is one word for the value, such as "number".
	Help, Type string
	// Default is the default for people; "" if there is none.
	Default string
	// Env is the variable of the same setting, "" if it has none.
	Env string
	// Repeat reports whether the flag may be given several times and all of them count. Of any other flag the last counts.
	Repeat bool
}

// Flags are the flags of the table, in its order.
func Flags() []Flag {
	var flags []Flag
	for _, s := range settings() {
		if s.flag != "" {
			flags = append(flags, Flag{Name: s.flag, Help: s.help, Type: s.kindName, Default: s.def, Env: s.env, Repeat: s.shape == pairs})
		}
	}
	return flags
}
