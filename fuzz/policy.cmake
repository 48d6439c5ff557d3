# Policies: the YAML with everything behind it, and the keys_file.
sl_fuzz(policy_yaml SOURCES ${CMAKE_CURRENT_LIST_DIR}/policy_yaml.c)
sl_fuzz(policy_keys SOURCES ${CMAKE_CURRENT_LIST_DIR}/policy_keys.c)
