/* Memory of the process is not assigned to. */
BEGIN { *(int *)16 = 1; }
