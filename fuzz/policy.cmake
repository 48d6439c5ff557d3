# Policies: the YAML with everything behind it, the keys_file, and overrides.
sl_fuzz(policy_yaml SOURCES ${CMAKE_CURRENT_LIST_DIR}/policy_yaml.c)
sl_fuzz(policy_keys SOURCES ${CMAKE_CURRENT_LIST_DIR}/policy_keys.c)
sl_fuzz(override SOURCES ${CMAKE_CURRENT_LIST_DIR}/override.c LINK PkgConfig::JANSSON)
